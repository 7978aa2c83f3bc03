package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

func (p *program) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl …",
		Short:              "Run kubectl",
		Example:            "  setpoint kubectl get pods --all-namespaces",
		DisableFlagParsing: true, // kubectl parses its own flags.
		RunE: func(_ *cobra.Command, args []string) error {
			if p.Kubectl == nil {
				return errorWithHint{
					errors.New("this binary has no kubectl"),
					"use the full binary (`make build` writes it to bin/setpoint), or kubectl itself",
				}
			}
			p.code = p.Kubectl(args)
			return nil
		},
	}
}
