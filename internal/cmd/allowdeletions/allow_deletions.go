// Package allowdeletions is `setpoint allow-deletions`: it allows what the deletion guard holds.
package allowdeletions

import (
	"cmp"
	"context"
	"fmt"

	"github.com/spf13/cobra"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Command returns `setpoint allow-deletions`.
func Command(p *command.Invocation) *cobra.Command {
	f := &processes.ReadFlags{PrintFlags: output.NewPrintFlags(output.AsTable)}
	c := &cobra.Command{
		Use:   "allow-deletions CONTROLLER [PARENT]",
		Short: "Allow the deletions that the deletion guard holds",
		Long: `Allow the deletions that the deletion guard of a controller holds: for all of its
parents, or for one. Review them first with 'setpoint get CONTROLLER -A' and
'setpoint why KIND/PARENT'.

The command sets the annotation setpoint.dev/allow-deletions to a value that allows only
the deletions held now. Later deletions are guarded as before. For a controller of a Go
program, which has no object, it annotates each parent. You need permission to patch
these objects.`,
		Example: `  setpoint allow-deletions tenants          # all held deletions of the controller
  setpoint allow-deletions tenants red      # those of one parent`,
		Args: func(c *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageErrorf("no controller given; `setpoint get` lists those with held deletions")
			}
			if err := command.NoArguments(c, args[min(2, len(args)):]); err != nil {
				return err
			}
			return client.CheckNames(args[1:])
		},
		ValidArgsFunction: processes.CompleteRunning(f, processes.RunningWords{
			Controller: func(c *inspect.Controller) bool { return c.HeldDeletions > 0 },
			Object:     func(o *inspect.ObjectState) bool { return o.HeldDeletions > 0 },
			Objects:    1,
		}),
		RunE: func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args) },
	}
	f.RegisterDiscovery(c)
	return c
}

func run(ctx context.Context, p *command.Invocation, f *processes.ReadFlags, args []string) error {
	r, err := f.Open(ctx, p)
	if err != nil {
		return err
	}
	selected := processes.NewSelection()
	g := &processes.Managed{Session: r, Flags: &selected}
	if len(args) == 2 {
		g.Name = args[1]
	}
	selected.Everywhere = g.Name == ""
	if err := g.SelectController(ctx, args[0]); err != nil {
		return err
	}
	if declared := g.Selected.Declared; g.Name == "" && declared != nil && g.Selected.HeldDeletions > 0 {
		if err := r.Client.Annotate(ctx, *declared, setpoint.AnnotationAllowDeletions, g.Selected.AllowDeletions); err != nil {
			return err
		}
		fmt.Fprintf(p.Stdout, "%s: %s allowed\n", output.Clean(g.Selected.Name),
			output.Plural(g.Selected.HeldDeletions, "deletion", "deletions"))
		return nil
	}
	return allowEach(ctx, g)
}

// allowEach allows the held deletions of each parent.
func allowEach(ctx context.Context, g *processes.Managed) error {
	parents, _, err := g.List(ctx)
	if err != nil {
		return err
	}
	allowed := 0
	for _, parent := range parents {
		if parent.HeldDeletions == 0 {
			continue
		}
		if err := g.Client.Annotate(ctx, parent.Ref, setpoint.AnnotationAllowDeletions, parent.AllowDeletions); err != nil {
			return err
		}
		allowed++
		fmt.Fprintf(g.Stdout, "%s: %s allowed\n", output.Clean(client.NameOf(parent.Ref)),
			output.Plural(parent.HeldDeletions, "deletion", "deletions"))
	}
	if allowed == 0 {
		fmt.Fprintf(g.Stdout, "%s has no held deletions\n", output.Clean(cmp.Or(g.Name, g.Selected.Name)))
	}
	return nil
}
