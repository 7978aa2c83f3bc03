// Package version is `setpoint version`.
package version

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/flags"
)

// Command returns `setpoint version` of a binary, about which it says something.
func Command(p *command.Invocation, about string, controlPlane bool) *cobra.Command {
	format := flags.OneOf(output.AsText, output.AsJSON, output.AsYAML)
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  setpoint version -o json",
		Args:    command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			v := command.ReadVersion()
			v.ControlPlane = controlPlane
			if format.Value != output.AsText {
				return output.Encode(p.Stdout, format.Value, v)
			}
			_, err := fmt.Fprintf(p.Stdout, "setpoint %s (%s)\n%s %s\n", v.Version, about, v.Go, v.Platform)
			return err
		},
	}
	command.AddChoice(c, format, "output", "o", "output format")
	return c
}
