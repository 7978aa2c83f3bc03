// Package cli is the command line: it has the root command, runs one invocation, and prints its error. Each command is a
// package of internal/cmd; what several commands share is in the folders here.
//
// Both binaries call Main: cmd/setpoint with no extras, the one of the control plane module
// with a cluster and kubectl.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/hooks"
	"github.com/setpoint-dev/setpoint/internal/cmd/allowdeletions"
	devcommand "github.com/setpoint-dev/setpoint/internal/cmd/dev"
	"github.com/setpoint-dev/setpoint/internal/cmd/get"
	"github.com/setpoint-dev/setpoint/internal/cmd/initialize"
	"github.com/setpoint-dev/setpoint/internal/cmd/loglevel"
	"github.com/setpoint-dev/setpoint/internal/cmd/plan"
	"github.com/setpoint-dev/setpoint/internal/cmd/rbac"
	"github.com/setpoint-dev/setpoint/internal/cmd/reconcile"
	"github.com/setpoint-dev/setpoint/internal/cmd/record"
	"github.com/setpoint-dev/setpoint/internal/cmd/release"
	"github.com/setpoint-dev/setpoint/internal/cmd/rollout"
	"github.com/setpoint-dev/setpoint/internal/cmd/run"
	"github.com/setpoint-dev/setpoint/internal/cmd/supportbundle"
	"github.com/setpoint-dev/setpoint/internal/cmd/test"
	"github.com/setpoint-dev/setpoint/internal/cmd/tree"
	"github.com/setpoint-dev/setpoint/internal/cmd/types"
	"github.com/setpoint-dev/setpoint/internal/cmd/uninstall"
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
	p := &command.Invocation{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
	return execute(context.Background(), p, e, os.Args[1:])
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
	root := rootCommand(p, e)
	root.SetArgs(args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return p.Code
	}
	fmt.Fprintln(p.Stderr, "error:", err)
	return explain(c, p, err)
}

// explain prints an error with its hint and returns the exit code.
func explain(c *cobra.Command, p *command.Invocation, err error) int {
	if command.IsUsageError(err) {
		fmt.Fprintf(p.Stderr, "hint: %s --help\n", c.CommandPath())
		if c.Annotations[command.UsageIsAFailure] != "" {
			return command.Failure
		}
		return command.WrongUsage
	}
	command.PrintHint(p.Stderr, err)
	return max(p.Code, command.Failure)
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
		// Without a distance cobra suggests nothing.
		SuggestionsMinimumDistance: 2,

		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          command.NoCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("setpoint {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return command.UsageError(flagError(err)) })
	root.AddCommand(run.Command(p), get.Command(p), why.Command(p), record.Command(p), tree.Command(p), plan.Command(p), rbac.Command(p),
		reconcile.Command(p), allowdeletions.Command(p), rollout.Command(p), release.Command(p), uninstall.Command(p), loglevel.Command(p),
		supportbundle.Command(p), devcommand.Command(p, e.Boot), kubectlCommand(p, e.Kubectl), initialize.Command(p, types.TypeScript),
		types.Command(p), test.Command(p, run.OperatorOptions),
		versionCommand(p, e.Boot != nil), hooks.EngineCommand())
	return root
}

// flagError replaces errors of Go's parsers by what the flag takes.
func flagError(err error) error {
	wrong, is := errors.AsType[*pflag.InvalidValueError](err)
	if !is || errors.Is(err, strconv.ErrRange) {
		return err
	}
	takes := map[string]string{
		"bool": "true or false", "int": "a whole number", "uint": "a whole number that is not negative",
		"float64": "a number", "duration": "a duration, such as 30s or 5m",
	}[wrong.GetFlag().Value.Type()]
	if takes == "" {
		return err
	}
	return fmt.Errorf("%smust be %s", strings.TrimSuffix(err.Error(), errors.Unwrap(wrong).Error()), takes)
}
