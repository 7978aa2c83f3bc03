// Package cli is the command line of developers: its root command has all commands. Each is a package of internal/cmd;
// what several share is in the folders here.
//
// Two binaries call Main: cmd/setpoint with no extras, the one of the control plane module with a cluster and kubectl.
// What a cluster runs is cmd/setpoint-controller.
package cli

import (
	"context"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/hooks"
	"github.com/setpoint-dev/setpoint/internal/cmd/allowdeletions"
	devcommand "github.com/setpoint-dev/setpoint/internal/cmd/dev"
	"github.com/setpoint-dev/setpoint/internal/cmd/doctor"
	"github.com/setpoint-dev/setpoint/internal/cmd/get"
	"github.com/setpoint-dev/setpoint/internal/cmd/initialize"
	"github.com/setpoint-dev/setpoint/internal/cmd/loglevel"
	"github.com/setpoint-dev/setpoint/internal/cmd/plan"
	"github.com/setpoint-dev/setpoint/internal/cmd/rbac"
	"github.com/setpoint-dev/setpoint/internal/cmd/reconcile"
	"github.com/setpoint-dev/setpoint/internal/cmd/record"
	"github.com/setpoint-dev/setpoint/internal/cmd/release"
	"github.com/setpoint-dev/setpoint/internal/cmd/render"
	"github.com/setpoint-dev/setpoint/internal/cmd/rollout"
	"github.com/setpoint-dev/setpoint/internal/cmd/run"
	"github.com/setpoint-dev/setpoint/internal/cmd/supportbundle"
	"github.com/setpoint-dev/setpoint/internal/cmd/test"
	"github.com/setpoint-dev/setpoint/internal/cmd/tree"
	"github.com/setpoint-dev/setpoint/internal/cmd/types"
	"github.com/setpoint-dev/setpoint/internal/cmd/uninstall"
	"github.com/setpoint-dev/setpoint/internal/cmd/version"
	"github.com/setpoint-dev/setpoint/internal/cmd/why"
	"github.com/setpoint-dev/setpoint/internal/dev"
)

// Extras are the features of the full binary.
type Extras struct {
	// Boot starts the control plane for `setpoint dev`.
	Boot dev.Boot
	// Kubectl runs the embedded kubectl and returns its exit code.
	Kubectl func(args []string) int
}

// Main runs the command line and returns the exit code of the process.
func Main(e Extras) int {
	e.Kubectl = withoutForeignFlags(e.Kubectl)
	return execute(context.Background(), command.OfProcess(), e, os.Args[1:])
}

// withoutForeignFlags hides the global flags of linked packages from cobra, which would
// parse them as ours: the components of the control plane define a --version that is not a
// bool. kubectl gets them back.
func withoutForeignFlags(kubectl func([]string) int) func([]string) int {
	foreign := pflag.CommandLine
	pflag.CommandLine = pflag.NewFlagSet(foreign.Name(), pflag.ContinueOnError)
	if kubectl == nil {
		return nil
	}
	return func(args []string) int {
		pflag.CommandLine = foreign
		return kubectl(args)
	}
}

func execute(ctx context.Context, p *command.Invocation, e Extras, args []string) int {
	return p.Execute(ctx, rootCommand(p, e), args)
}

func rootCommand(p *command.Invocation, e Extras) *cobra.Command {
	root := &cobra.Command{
		Use:   "setpoint",
		Short: "A runtime for Kubernetes controllers",
		Long: `Setpoint runs Kubernetes controllers whose logic is a function: it watches objects,
calls the function for the desired state, and applies it.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 aborted.
After "setpoint dev … -- COMMAND" the exit code is that of the command; "setpoint plan"
exits with 2 if there are changes.`,
		Example: `  setpoint dev examples/immortalcontainer    # boot a cluster with a controller
  setpoint run --kubeconfig ~/.kube/config   # run the controllers of a cluster
  setpoint plan spcc/teams -A                # show what a controller would change`,
		Version: command.ReadVersion().Version,
	}
	root.SetVersionTemplate("setpoint {{.Version}}\n")
	about := "light, for a cluster you have"
	if e.Boot != nil {
		about = "full, with a control plane inside"
	}
	root.AddCommand(run.Command(p), get.Command(p), why.Command(p), record.Command(p), tree.Command(p), plan.Command(p), rbac.Command(p),
		reconcile.Command(p), allowdeletions.Command(p), rollout.Command(p), release.Command(p), uninstall.Command(p), loglevel.Command(p),
		doctor.Command(p, about), supportbundle.Command(p), devcommand.Command(p, e.Boot, reconcile.All), kubectlCommand(p, e.Kubectl),
		initialize.Command(p, types.Declarations), types.Command(p), render.Command(p, run.OperatorOptions),
		test.Command(p, run.OperatorOptions),
		version.Command(p, about, e.Boot != nil), hooks.EngineCommand())
	return root
}
