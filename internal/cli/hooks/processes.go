// Package hooks has the flags of how hooks are called, by processes on this machine or by other addresses, and of how their
// responses are applied.
package hooks

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"slices"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/call/child"
	"github.com/setpoint-dev/setpoint/internal/call/inline"
	execprogram "github.com/setpoint-dev/setpoint/internal/call/program"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/flags"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/script"
	"github.com/setpoint-dev/setpoint/internal/script/javascript"
	"github.com/setpoint-dev/setpoint/internal/script/starlark"
)

// Processes configure the processes of inline and exec hooks.
type Processes struct {
	// memory is the limit of the code of an inline hook, such as "128Mi".
	memory string
	// ExecDirs are the directories of programs; none if exec hooks are not allowed.
	ExecDirs []string
	// Log receives what hooks print; the log of the manager if nil.
	Log *slog.Logger
	// Opener opens the programs of ExecDirs.
	Opener execprogram.Opener
}

const (
	defaultHookMemory = "128Mi"
	// leastHookMemory is what an engine needs for small code.
	leastHookMemory = 16 << 20
)

// Register adds all flags.
func (h *Processes) Register(set *pflag.FlagSet) {
	h.RegisterMemory(set)
	h.RegisterExec(set)
}

// RegisterMemory adds the flag of inline hooks.
func (h *Processes) RegisterMemory(set *pflag.FlagSet) {
	set.StringVar(&h.memory, "inline-hook-max-memory", defaultHookMemory,
		"maximum memory of a process that runs an inline hook, in `bytes`, above what it needs to start")
}

// RegisterExec adds the flag of exec hooks.
func (h *Processes) RegisterExec(set *pflag.FlagSet) {
	set.StringArrayVar(&h.ExecDirs, "exec-hooks", nil,
		"`DIR` with the programs that exec hooks may run (repeatable; default: exec hooks are refused)")
}

// read returns the values of the flags.
func (h *Processes) read() (memory int, dirs []string, err error) {
	memory, err = manager.ParseBytes(cmp.Or(h.memory, defaultHookMemory))
	switch {
	case err != nil:
		return 0, nil, fmt.Errorf("--inline-hook-max-memory %w", err)
	case memory < leastHookMemory:
		return 0, nil, errors.New("--inline-hook-max-memory must be at least 16Mi")
	}
	for _, dir := range h.ExecDirs {
		path, err := filepath.Abs(dir)
		if info, wrong := os.Stat(dir); wrong != nil {
			err = wrong
		} else if !info.IsDir() {
			err = fmt.Errorf("%s is not a directory", dir)
		}
		if err != nil {
			return 0, nil, fmt.Errorf("--exec-hooks: %w", err)
		}
		if !slices.Contains(dirs, path) {
			dirs = append(dirs, path)
		}
	}
	return memory, dirs, nil
}

// AddTo lets a manager call inline and exec hooks.
func (h *Processes) AddTo(o *manager.Options) error {
	memory, dirs, err := h.read()
	if err != nil {
		return command.UsageError(err)
	}
	executable, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program, which runs inline hooks: %w", err)
	}
	limiter, reviews, log := child.NewLimiter(0), child.NewLimiter(0), cmp.Or(h.Log, o.Log)
	compiler := inline.Compiler{
		Command:     []string{executable, engineName, fmt.Sprint("--memory=", memory)},
		MemoryBytes: int64(memory), Limiter: limiter, ReviewLimiter: reviews, Log: log,
	}
	o.Inline, o.HookProcesses = compiler.Compile, func() map[string]child.Figures { return child.FiguresOf(limiter, reviews) }
	if len(dirs) > 0 {
		h.Opener.Dirs, h.Opener.Limiter, h.Opener.ReviewLimiter, h.Opener.Log = dirs, limiter, reviews, log
		o.Exec = h.Opener.Open
	}
	return nil
}

// engineName is the name of the command that runs the code of inline hooks. It is not for users.
const engineName = "hook-engine"

// EngineCommand returns the command that runs the code of inline hooks.
func EngineCommand() *cobra.Command {
	var memory int64
	c := &cobra.Command{
		Use:    engineName,
		Short:  "Run the code of an inline hook for 'setpoint run' (internal)",
		Hidden: true,
		Args:   command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			engines := map[string]script.Engine{"JavaScript": javascript.Engine{}, "Starlark": starlark.Engine{}}
			return (&script.Server{Engines: engines, MemoryBytes: memory}).Serve()
		},
	}
	c.Flags().Int64Var(&memory, "memory", 0, "`bytes` of memory that the code may use")
	return c
}

// Values of --apply-strategy.
const (
	merge  = "merge"
	server = "server-side"
)

// NewApplyStrategy returns --apply-strategy, which takes the words of Metacontroller too.
func NewApplyStrategy() *flags.Choice {
	return flags.OneOf(merge, server).WithAliases(map[string]string{"dynamic-apply": merge, "server-side-apply": server})
}

// ApplyStrategy returns the strategy that is chosen, as the manager names it.
func ApplyStrategy(c *flags.Choice) plan.ApplyStrategy {
	if c.Value == server {
		return plan.ServerSide
	}
	return plan.Merge
}
