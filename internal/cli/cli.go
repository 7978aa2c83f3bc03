// Package cli is the command line. It turns arguments, environment and signals into options
// of the packages below, and their results into output and exit codes. No other package
// uses cobra or flags.
//
// Both binaries call Main: cmd/setpoint with no extras, the one of the control plane module
// with a cluster and kubectl.
package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/setpoint-dev/setpoint/internal/dev"
)

// Extras are the features of the full binary.
type Extras struct {
	// Boot starts the control plane for `setpoint dev`.
	Boot dev.Boot
	// Kubectl runs the embedded kubectl and returns its exit code.
	Kubectl func(args []string) int
}

// Exit codes. `setpoint dev … -- COMMAND` exits with the code of the command.
const (
	codeOK      = 0
	codeFailure = 1
	codeUsage   = 2
	codeAborted = 130 // As a shell reports Ctrl-C.
)

// usageCode annotates commands that use exit code 2 for something else. They exit with 1 on
// wrong usage.
const usageCode = "usage-is-a-failure"

// program is one invocation of the command line.
type program struct {
	Extras
	stdin          io.Reader
	stdout, stderr io.Writer
	// code is the exit code set by a command that chooses its own.
	code int
}

// Main runs the command line and returns the exit code of the process.
func Main(e Extras) int {
	e.Kubectl = withoutForeignFlags(e.Kubectl)
	p := &program{Extras: e, stdin: os.Stdin, stdout: os.Stdout, stderr: os.Stderr}
	return p.execute(context.Background(), os.Args[1:])
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

// explain prints an error with its hint and returns the exit code.
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

// usageError is an invalid command line.
type usageError struct{ error }

func (e usageError) Unwrap() error { return e.error }

// errorWithHint is an error with a hint for the user.
type errorWithHint struct {
	error
	hint string
}

func (e errorWithHint) Unwrap() error { return e.error }

func (p *program) root() *cobra.Command {
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
		Version: readVersion().Version,
		// Without a distance cobra suggests nothing.
		SuggestionsMinimumDistance: 2,

		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          noCommand,
		RunE:          func(c *cobra.Command, _ []string) error { return c.Help() },
	}
	root.SetVersionTemplate("setpoint {{.Version}}\n")
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return usageError{flagError(err)} })
	root.AddCommand(p.runCommand(), p.getCommand(), p.whyCommand(), p.recordCommand(), p.treeCommand(), p.planCommand(), p.rbacCommand(),
		p.reconcileCommand(), p.allowDeletionsCommand(), p.rolloutCommand(), p.releaseCommand(), p.uninstallCommand(), p.logLevelCommand(),
		p.supportBundleCommand(), p.devCommand(), p.kubectlCommand(), p.initCommand(), p.typesCommand(), p.testCommand(),
		p.versionCommand(), p.engineCommand())
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

// noCommand rejects arguments that are no command.
func noCommand(c *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	err := fmt.Errorf("unknown command %q", args[0])
	if like := likest(c, args[0]); like != "" {
		err = fmt.Errorf("%w; did you mean %q?", err, like)
	}
	return usageError{err}
}

// likest returns the command whose name is most like a word; "" for none.
func likest(c *cobra.Command, word string) string {
	like := c.SuggestionsFor(word)
	if len(like) == 0 {
		return ""
	}
	begin := func(name string) int { return commonPrefix(name, word) } // Few mistype the first letters.
	return slices.MaxFunc(like, func(a, b string) int { return begin(a) - begin(b) })
}

// commonPrefix returns how many bytes two texts begin with in common.
func commonPrefix(a, b string) int {
	n := 0
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

func noArguments(_ *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	return usageError{fmt.Errorf("unexpected argument %q", args[0])}
}
