// Command setpoint-controller, for a cluster to run: `setpoint run` without the
// commands of a developer. In the image it is /setpoint.
package main

import (
	"context"
	"os"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/hooks"
	"github.com/setpoint-dev/setpoint/internal/cmd/run"
	"github.com/setpoint-dev/setpoint/internal/cmd/version"
)

func main() {
	p := command.OfProcess()
	root := &cobra.Command{
		Use:   "setpoint",
		Short: "A runtime for Kubernetes controllers",
		Long: `This binary is what a cluster runs. The one with all commands is in the archives of a
release, or: go install github.com/setpoint-dev/setpoint/cmd/setpoint@latest`,
		CompletionOptions: cobra.CompletionOptions{DisableDefaultCmd: true},
	}
	root.AddCommand(run.Command(p), version.Command(p, "controller, for a cluster to run", false), hooks.EngineCommand())
	os.Exit(p.Execute(context.Background(), root, os.Args[1:]))
}
