package cli

import (
	"errors"
	"fmt"
	"io"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/flags"
)

func versionCommand(p *command.Invocation, full bool) *cobra.Command {
	format := flags.OneOf(output.AsText, output.AsJSON, output.AsYAML)
	c := &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Example: "  setpoint version -o json",
		Args:    command.NoArguments,
		RunE: func(*cobra.Command, []string) error {
			info := command.ReadVersion()
			info.ControlPlane = full
			return writeVersion(p.Stdout, info, format.Value)
		},
	}
	command.AddChoice(c, format, "output", "o", "output format")
	return c
}

func writeVersion(w io.Writer, v command.VersionInfo, format string) error {
	if format != output.AsText {
		return output.Encode(w, format, v)
	}
	kind := "light, for a cluster you have"
	if v.ControlPlane {
		kind = "full, with a control plane inside"
	}
	_, err := fmt.Fprintf(w, "setpoint %s (%s)\n%s %s\n", v.Version, kind, v.Go, v.Platform)
	return err
}

func kubectlCommand(p *command.Invocation, kubectl func([]string) int) *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl …",
		Short:              "Run kubectl",
		Example:            "  setpoint kubectl get pods --all-namespaces",
		DisableFlagParsing: true, // kubectl parses its own flags.
		RunE: func(_ *cobra.Command, args []string) error {
			if kubectl == nil {
				return command.WithHint(
					errors.New("this binary has no kubectl"),
					"use the full binary (`make build` writes it to bin/setpoint), or kubectl itself",
				)
			}
			p.Code = kubectl(args)
			return nil
		},
	}
}
