// Package cli is the command line: it turns arguments, environment and signals
// into options of the rooms below, and what they return into messages and exit
// codes. No other room knows cobra, flags, or the process it runs in.
//
// Nothing is decided here that a program using the rooms directly would miss.
// Both binaries call Main: cmd/setpoint with nothing plugged in, the full one
// of the control plane module with a cluster and kubectl.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/dev"
)

// Extras are what only the full binary has.
type Extras struct {
	// Boot starts the control plane of `setpoint dev`.
	Boot dev.Boot
	// Kubectl runs the real kubectl and returns its exit code.
	Kubectl func(args []string) int
}

// Exit codes. A command after `setpoint dev … --` has its own.
const (
	codeOK      = 0
	codeFailure = 1
	codeUsage   = 2
	codeAborted = 130 // as a shell has it for Ctrl-C
)

// usageCode is the annotation of a command whose exit code 2 means something else:
// wrong usage is a failure like any other.
const usageCode = "usage-is-a-failure"

// program is one call of the command line.
type program struct {
	Extras
	stdin          io.Reader
	stdout, stderr io.Writer
	// code is the exit code of a command that decides about it itself.
	code int
}

// Main runs the command line of this process and returns its exit code.
func Main(e Extras) int {
	e.Kubectl = withoutForeignFlags(e.Kubectl)
	p := &program{Extras: e, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	return p.execute(context.Background(), os.Args[1:])
}

// withoutForeignFlags takes away the flags that packages of this binary have added to those
// of the process, where cobra would take them for ours: the components of a control plane
// have a --version that is no bool, at which cobra gives up. kubectl gets them back.
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

func (p *program) execute(ctx context.Context, args []string) int {
	root := p.root()
	root.SetArgs(args)
	root.SetIn(p.stdin)
	root.SetOut(p.stdout)
	root.SetErr(p.stderr)
	command, err := root.ExecuteContextC(ctx)
	if err == nil {
		return p.code
	}
	fmt.Fprintln(p.stderr, "error:", err)
	return p.explain(command, err)
}

// explain writes what to do about an error and says how the program ends.
func (p *program) explain(command *cobra.Command, err error) int {
	if _, wrong := errors.AsType[usageError](err); wrong {
		fmt.Fprintf(p.stderr, "hint: %s --help\n", command.CommandPath())
		if command.Annotations[usageCode] != "" {
			return codeFailure
		}
		return codeUsage
	}
	if helpful, ok := errors.AsType[errorWithHint](err); ok {
		fmt.Fprintln(p.stderr, "hint:", helpful.hint)
	}
	return max(p.code, codeFailure)
}

// usageError is a mistake in the arguments.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errorWithHint is an error with what to do about it.
type errorWithHint struct {
	error
	hint string
}

func (e errorWithHint) Unwrap() error { return e.error }

func (p *program) root() *cobra.Command {
	root := &cobra.Command{
		Use:   "setpoint",
		Short: "A runtime for Kubernetes controllers",
		Long: `Setpoint runs Kubernetes controllers whose logic is a function: it watches,
asks what should be, and makes it so.

Exit codes: 0 done, 1 failed, 2 wrong usage, 130 stopped by force.
After "setpoint dev … -- COMMAND" the exit code is the command's; that of
"setpoint plan" is 2 when there are changes.`,
		Example: `  setpoint dev examples/immortalcontainer    # a cluster, and a controller in it
  setpoint run --kubeconfig ~/.kube/config   # the controllers of that cluster
  setpoint plan spcc/teams -A                # what one of them would do`,
		Version: readVersion().Version,
		// Without it cobra suggests nothing.
		SuggestionsMinimumDistance: 2,

		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("setpoint {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{err} })
	root.AddCommand(p.runCommand(), p.getCommand(), p.whyCommand(), p.treeCommand(), p.planCommand(), p.allowDeletionsCommand(), p.devCommand(), p.kubectlCommand(), p.versionCommand())
	return root
}

// noCommand is for a word that should have been a command.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if like := c.SuggestionsFor(args[0]); len(like) > 0 {
		err = fmt.Errorf("%w; did you mean %q?", err, like[0])
	}
	return usageError{err}
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("unexpected argument %q", args[0])}
}
