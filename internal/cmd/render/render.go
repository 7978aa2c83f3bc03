// Package render is `setpoint render`: what hooks return for the objects in files, as documents of YAML.
package render

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/offline"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/testcase"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// codeDiffError is the exit code of --diff if there is no comparison: 1 means that there are differences.
const codeDiffError = 2

// renderFlags are the flags of `setpoint render`.
type renderFlags struct {
	files *offline.Flags
	diff  string
	output.PrintFlags
}

// Command returns `setpoint render`. It reads the command lines of operators with the function.
func Command(p *command.Invocation, parse offline.OperatorParser) *cobra.Command {
	f := &renderFlags{files: offline.NewFlags(parse), PrintFlags: output.NewPrintFlags(output.AsYAML, output.AsJSON)}
	_ = f.Output.Set(output.AsYAML) // It is one of them.
	c := &cobra.Command{
		Use:   "render (DIR | FILE)…",
		Short: "Print what hooks return for the objects in files",
		Long: `Call the hooks of the controllers in the files for the parents in the files, without a
cluster, and print what they return: each parent with its status, and of a decorator its
labels and annotations, then its children. Nothing is stored or written.

DIR has a setpoint.yaml, whose manifests are read and whose programs are started if they serve
a hook or run an operator in Python, or else manifests. FILE is a manifest with controllers,
CRDs, parents or what is around them, or - for standard input. If a hook fails, nothing is
printed. See docs/test.md.

Exit codes: 0 success, 1 failure, 2 wrong usage, 130 aborted.
With --diff: 0 no differences, 1 differences, 2 failure or wrong usage, 130 aborted.`,
		Example: `  setpoint render controller.yaml parent.yaml
  setpoint render . >rendered.txt           # a folder with a setpoint.yaml
  setpoint render . --diff rendered.txt     # what a change of the code changes
  setpoint render . -o jsonpath='{.items[*].metadata.name}'`,
		RunE: func(c *cobra.Command, args []string) error {
			if f.diff != "" && c.Flags().Changed("output") {
				return command.UsageErrorf("--diff prints text; omit --output")
			}
			return run(c.Context(), p, f, args)
		},
	}
	set := c.Flags()
	set.SortFlags = false
	set.StringVar(&f.diff, "diff", "", "former output in this `file` to compare with")
	f.files.Register(set)
	f.Register(c)
	return c
}

func run(ctx context.Context, p *command.Invocation, f *renderFlags, args []string) (failed error) {
	if len(args) == 0 {
		return command.UsageErrorf("no files given; give a folder with a setpoint.yaml, or manifests with controllers and parents")
	}
	ctx, stop := command.UntilSignal(ctx)
	defer stop()
	if f.diff != "" {
		p.Code = codeDiffError
	}
	defer func() {
		if failed != nil {
			f.files.ShowOutput(p.Stderr)
		}
	}()
	former, err := readFormer(f.diff)
	if err != nil {
		return err
	}
	w, err := f.files.Open(ctx, p, args)
	if err != nil {
		return err
	}
	defer w.Close()
	documents, err := render(ctx, p, w)
	switch {
	case ctx.Err() != nil:
		p.Code = command.Aborted
		return err
	case err != nil:
		return err
	case f.diff != "":
		return f.compare(p, former, documents)
	case f.Output.Value == output.AsYAML:
		problems := lists.Map(documents, func(d map[string]any) error { return f.PrintValue(p.Stdout, d) })
		return errors.Join(problems...)
	}
	return f.PrintValue(p.Stdout, map[string]any{"apiVersion": "v1", "kind": "List", "items": documents})
}

// render calls the hooks for all objects in the files, and returns all documents, or all errors.
func render(ctx context.Context, p *command.Invocation, w *workspace.Workspace) ([]map[string]any, error) {
	if conflicts := w.Conflicts(); len(conflicts) > 0 {
		return nil, errors.Join(conflicts...)
	}
	cases, skipped, err := testcase.OfFiles(w)
	if err != nil {
		return nil, err
	}
	if len(cases) == 0 {
		reasons := cmp.Or(strings.Join(skipped, "\n"), "the files have no controller that manages objects")
		return nil, command.WithHint(errors.New("nothing to render: "+reasons),
			"add the manifests of a controller and of an object that it manages")
	}
	for _, each := range append(skipped, w.Kinds.Notes()...) {
		note(p, each)
	}
	all := []map[string]any{}
	var problems []error
	own := -1 // the place of the object of the case before
	for i, c := range cases {
		follows := false
		if own >= 0 {
			same, err := testcase.Follow(c, cases[i-1], all[own])
			follows, problems = same, append(problems, err)
		}
		documents, others, err := c.Render(ctx)
		switch {
		case len(documents) > 0 && follows:
			all[own], documents = documents[0], documents[1:]
		case len(documents) > 0:
			own = len(all)
		case !follows:
			own = -1
		}
		all, problems = append(all, documents...), append(problems, err)
		if len(others) > 0 {
			text, err := json.Marshal(others)
			problems = append(problems, err)
			note(p, c.Heading()+": "+diff.Unescaped(text))
		}
	}
	return all, errors.Join(problems...)
}

func note(p *command.Invocation, text string) { fmt.Fprintln(p.Stderr, "note:", output.Clean(text)) }
