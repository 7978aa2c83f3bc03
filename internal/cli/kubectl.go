package cli

import (
	"errors"

	"github.com/spf13/cobra"
)

func (p *program) kubectlCommand() *cobra.Command {
	return &cobra.Command{
		Use:                "kubectl …",
		Short:              "The real kubectl, for machines that have none",
		Example:            "  setpoint kubectl get pods --all-namespaces",
		DisableFlagParsing: true, // All of it is kubectl's.
		RunE: func(_ *cobra.Command, args []string) error {
			if p.Kubectl == nil {
				return errorWithHint{
					errors.New("this setpoint has no kubectl in it"),
					"use the full one (`make build` leaves it at bin/setpoint), or kubectl itself",
				}
			}
			p.code = p.Kubectl(args)
			return nil
		},
	}
}
