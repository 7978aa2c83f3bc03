package cli

import (
	"errors"
	"os"
	"regexp"
	"slices"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
)

func kubectlCommand(p *command.Invocation, kubectl func([]string) int) *cobra.Command {
	return &cobra.Command{
		Use:   "kubectl …",
		Short: "Run kubectl",
		Long: `Run kubectl with its own flags. In a folder with a running 'setpoint dev' it uses that
cluster, unless a flag or $KUBECONFIG says another one.`,
		Example:            "  setpoint kubectl get pods --all-namespaces",
		DisableFlagParsing: true, // kubectl parses its own flags.
		RunE: func(_ *cobra.Command, args []string) error {
			if kubectl == nil {
				return command.WithHint(
					errors.New("this binary has no kubectl"),
					"use the full binary (`make build` writes it to bin/setpoint), or kubectl itself",
				)
			}
			err := useSession(args)
			if err == nil {
				p.Code = kubectl(args)
			}
			return err
		},
	}
}

// useSession sets $KUBECONFIG to that of the session, unless a flag of kubectl selects a cluster.
func useSession(args []string) error {
	if end := slices.Index(args, "--"); end >= 0 {
		args = args[:end] // The rest is a command in a container.
	}
	if slices.ContainsFunc(args, selectsCluster.MatchString) {
		return nil
	}
	path, err := client.SessionKubeconfig()
	if err != nil || path == "" {
		return err
	}
	return os.Setenv("KUBECONFIG", path)
}

// selectsCluster matches the flags of kubectl that say which cluster to use.
var selectsCluster = regexp.MustCompile(`^(--(kubeconfig|context|cluster|server)(=|$)|-s)`)
