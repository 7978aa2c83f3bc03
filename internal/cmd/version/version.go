// Package version is `setpoint version`.
package version

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/flags"
)

// Kind is what a binary has.
type Kind string

// The binaries: Controller is what a cluster runs.
const (
	Controller Kind = "controller, for a cluster to run"
	Light      Kind = "light, for a cluster you have"
	Full       Kind = "full, with a control plane inside"
)

// Command returns `setpoint version` of a binary.
func Command(p *command.Invocation, kind Kind) *cobra.Command {
	format := flags.OneOf(output.AsText, output.AsJSON, output.AsYAML)
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  setpoint version -o json",
		Args:    command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			v := command.ReadVersion()
			v.ControlPlane = kind == Full
			if format.Value != output.AsText {
				return output.Encode(p.Stdout, format.Value, v)
			}
			_, err := fmt.Fprintf(p.Stdout, "setpoint %s (%s)\n%s %s\n", v.Version, kind, v.Go, v.Platform)
			return err
		},
	}
	command.AddChoice(c, format, "output", "o", "output format")
	return c
}
