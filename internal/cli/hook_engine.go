package cli

import (
	"fmt"
	"log/slog"
	"os"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/call/inline"
	execprogram "github.com/setpoint-dev/setpoint/internal/call/program"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/script"
)

// engineCommand is the name of the command that runs the code of inline hooks. It is not for users.
const engineCommand = "hook-engine"

// engines are the languages of inline hooks.
func engines() map[string]script.Engine {
	return map[string]script.Engine{}
}

func (p *program) engineCommand() *cobra.Command {
	var memory int64
	c := &cobra.Command{
		Use:    engineCommand,
		Short:  "Run the code of an inline hook for 'setpoint run' (internal)",
		Hidden: true,
		Args:   noArguments,
		RunE: func(*cobra.Command, []string) error {
			return (&script.Server{Engines: engines(), MemoryBytes: memory}).Serve()
		},
	}
	c.Flags().Int64Var(&memory, "memory", 0, "`bytes` of memory that the code may use")
	return c
}

// hookProcesses start the processes of inline and exec hooks.
type hookProcesses struct {
	// memory is the limit of inline code.
	memory int64
	// execDirs are the directories of programs; none if exec hooks are not allowed.
	execDirs []string
	log      *slog.Logger
}

// add lets a manager call inline and exec hooks.
func (h hookProcesses) add(o *manager.Options) error {
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which runs inline hooks: %w", err)
	}
	limiter := child.NewLimiter(0)
	compiler := inline.Compiler{
		Command:     []string{executable, engineCommand, fmt.Sprint("--memory=", h.memory)},
		MemoryBytes: h.memory, Limiter: limiter, Log: h.log,
	}
	o.Inline = compiler.Compile
	if len(h.execDirs) > 0 {
		o.Exec = (&execprogram.Opener{Dirs: h.execDirs, Limiter: limiter, Log: h.log}).Open
	}
	o.HookProcesses = limiter.Figures
	return nil
}
