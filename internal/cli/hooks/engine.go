package hooks

import (
	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/script"
	"github.com/setpoint-dev/setpoint/internal/script/javascript"
	"github.com/setpoint-dev/setpoint/internal/script/starlark"
)

// engineName is the name of the command that runs the code of inline hooks. It is not for users.
const engineName = "hook-engine"

// engines are the languages of inline hooks.
func engines() map[string]script.Engine {
	return map[string]script.Engine{"JavaScript": javascript.Engine{}, "Starlark": starlark.Engine{}}
}

func EngineCommand() *cobra.Command {
	var memory int64
	c := &cobra.Command{
		Use:    engineName,
		Short:  "Run the code of an inline hook for 'setpoint run' (internal)",
		Hidden: true,
		Args:   command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			return (&script.Server{Engines: engines(), MemoryBytes: memory}).Serve()
		},
	}
	c.Flags().Int64Var(&memory, "memory", 0, "`bytes` of memory that the code may use")
	return c
}
