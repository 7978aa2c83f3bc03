package cli

import (
	"errors"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
)

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
