// Package test is `setpoint test`: it runs cases, explorations and stories, and reports their results.
package test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/offline"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/testcase"
)

// Command returns `setpoint test`. It reads the command lines of operators with the function.
func Command(p *command.Invocation, parse offline.OperatorParser) *cobra.Command {
	f := &testFlags{files: offline.NewFlags(parse), PrintFlags: output.NewTextFlags()}
	c := &cobra.Command{
		Use:   "test (DIR | FILE)…",
		Short: "Test controllers without a cluster",
		Long: `Test the behavior of controllers. No control plane runs. There are three parts:

  cases    files of kind Case: a request to a hook, and the response that is expected
  explore  files of kind Exploration: every order in which events, writes, crashes, faults
           and edits can follow each other, within bounds, and what must hold in all of them
  replay   files of kind Story, which explore writes for what does not hold

DIR has a setpoint.yaml, whose manifests are read and whose programs are started if they serve
a hook or run an operator in Python, or else manifests. Tests are in any file directly in DIR, or
in its folder tests. FILE is a manifest with controllers, CRDs or tests, or an operator in Python.
Inline hooks run as in 'setpoint run', exec
hooks run in DIR or beside FILE.

In cases the API server's part of objects may be left out, and only the fields in expect are
compared. --update writes what hooks respond into the files, and keeps comments. Without any
test, or with --only explore and without an Exploration, each controller is explored with its
samples: the objects in the files that it manages. See docs/test.md.

Exit codes: 0 everything holds, 1 something does not or cannot run, 2 wrong usage, 130 aborted.`,
		Example: `  setpoint test .                          # everything in this folder
  setpoint test controller.yaml cases.yaml
  setpoint test . --run 'scale|delete'     # what has such a name
  setpoint test . --update && git diff     # accept what the hooks respond now
  setpoint test . --only explore --time 5m --faults 2
  setpoint test . stories/rollout-settles.yaml
  setpoint test . --junit report.xml       # for a CI system`,
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args) },
	}
	set := c.Flags()
	set.SortFlags = false
	set.StringSliceVar(&f.only, "only", nil, "comma-separated `parts` to run: "+strings.Join(testParts(), ", ")+" (default: all)")
	command.CompleteWords(c, "only", testParts())
	set.StringVar(&f.run, "run", "", "run only what has a name that matches this regular `expression`")
	f.limits.register(set)
	set.BoolVar(&f.update, "update", false, "write the responses of hooks into the files of cases that fail")
	set.BoolVarP(&f.verbose, "verbose", "v", false, "show the response of each case")
	set.StringVar(&f.junit, "junit", "", "`file` to write a report to, in the format of JUnit")
	f.files.Register(set)
	f.Register(c)
	return c
}

func run(ctx context.Context, p *command.Invocation, f *testFlags, args []string) (failed error) {
	names, err := f.check(args)
	if err != nil {
		return err
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	began := time.Now()
	defer func() {
		if f.verbose || failed != nil || p.Code != command.OK {
			f.files.ShowOutput(p.Stderr)
		}
	}()
	w, err := f.files.Open(ctx, p, args)
	if err != nil {
		return err
	}
	defer w.Close()
	plan, err := f.plan(w, names)
	if err != nil {
		return err
	}
	if plan.size() == 0 {
		return command.WithHint(fmt.Errorf("no test in %s%s", strings.Join(args, ", "), f.filtered()), f.missing(w))
	}
	plan.progress = output.NewReporter(p.Stderr)
	report, err := plan.run(ctx, f)
	if err != nil {
		return err
	}
	if plan.sampled && ctx.Err() == nil {
		report.Notes = append(report.Notes, "no test in the files: each controller was explored with its samples")
		if report.FirstCase, err = testcase.Draft(ctx, w); err != nil {
			return err
		}
	}
	report.Notes = slices.Concat(report.Notes, w.Kinds.Notes(), lists.Map(w.Conflicts(), error.Error))
	report.summarize(plan.size(), time.Since(began))
	return finish(ctx, p, f, report)
}

// finish prints the report and sets the exit code.
func finish(ctx context.Context, p *command.Invocation, f *testFlags, report *testReport) error {
	if report.Summary.Failed > 0 {
		p.Code = command.Failure
	}
	if ctx.Err() != nil {
		p.Code = command.Aborted
	}
	if f.verbose || p.Code != command.OK {
		f.files.ShowOutput(p.Stderr) // A first case is below the report, to be copied.
	}
	written := report.writeJUnit(f.junit)
	if f.Structured() {
		return errors.Join(f.PrintValue(p.Stdout, report), written)
	}
	return errors.Join(report.writeText(p.Stdout, testStyle{color: f.WantsColor(p.Stdout), verbose: f.verbose}), written)
}
