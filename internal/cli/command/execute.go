package command

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"
)

// OfProcess returns the invocation by the command line of this process.
func OfProcess() *Invocation {
	return &Invocation{Stdin: os.Stdin, Stdout: os.Stdout, Stderr: os.Stderr}
}

// Execute runs a root command with arguments and returns the exit code of the process.
func (p *Invocation) Execute(ctx context.Context, root *cobra.Command, args []string) int {
	root.SilenceErrors, root.SilenceUsage = true, true
	root.SuggestionsMinimumDistance = 2 // Without a distance cobra suggests nothing.
	root.Args = NoCommand
	root.RunE = func(c *cobra.Command, _ []string) error { return c.Help() }
	root.SetFlagErrorFunc(func(_ *cobra.Command, err error) error { return UsageError(flagError(err)) })
	root.SetArgs(args)
	root.SetIn(p.Stdin)
	root.SetOut(p.Stdout)
	root.SetErr(p.Stderr)
	c, err := root.ExecuteContextC(ctx)
	if err == nil {
		return p.Code
	}
	fmt.Fprintln(p.Stderr, "error:", err)
	return p.explain(c, err)
}

// explain prints the hint of an error and returns the exit code.
func (p *Invocation) explain(c *cobra.Command, err error) int {
	if IsUsageError(err) {
		fmt.Fprintf(p.Stderr, "hint: %s --help\n", c.CommandPath())
		if c.Annotations[UsageIsAFailure] != "" {
			return Failure
		}
		return WrongUsage
	}
	PrintHint(p.Stderr, err)
	return max(p.Code, Failure)
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
