package cli

import (
	"encoding/json"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/flags"
)

func versionCommand(p *command.Invocation, full bool) *cobra.Command {
	output := flags.OneOf("text", "json", "yaml")
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  setpoint version -o json",
		Args:    command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			info := command.ReadVersion()
			info.ControlPlane = full
			return writeVersion(p.Stdout, info, output.Value)
		},
	}
	command.AddChoice(c, output, "output", "o", "output format")
	return c
}

func writeVersion(w io.Writer, v command.VersionInfo, format string) error {
	switch format {
	case "json":
		encoder := json.NewEncoder(w)
		encoder.SetIndent("", "  ")
		return encoder.Encode(v)
	case "yaml":
		text, err := yaml.Marshal(v)
		if err != nil {
			return err
		}
		_, err = w.Write(text)
		return err
	default:
		kind := "light, for a cluster you have"
		if v.ControlPlane {
			kind = "full, with a control plane inside"
		}
		_, err := fmt.Fprintf(w, "setpoint %s (%s)\n%s %s\n", v.Version, kind, v.Go, v.Platform)
		return err
	}
}
