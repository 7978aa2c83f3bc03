package cli

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func (p *program) allowDeletionsCommand() *cobra.Command {
	f := newGetFlags()
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
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageError{errors.New("no controller given; `setpoint get` lists those with held deletions")}
			case len(args) > 2:
				return usageError{fmt.Errorf("unexpected argument %q", args[2])}
			}
			return checkNames(args[1:])
		},
		ValidArgsFunction: completeRunning(&f.readFlags, withHeldDeletions()),
		RunE:              func(c *cobra.Command, args []string) error { return p.allowDeletions(c.Context(), f, args) },
	}
	f.registerDiscovery(c)
	return c
}

func (p *program) allowDeletions(ctx context.Context, f *getFlags, args []string) error {
	r, err := f.open(ctx, p)
	if err != nil {
		return err
	}
	g := &objectGetter{session: r, flags: f, controllerArg: args[0]}
	if len(args) == 2 {
		g.name = args[1]
	}
	f.everywhere = g.name == ""
	if g.selected, g.source, err = g.controller(ctx, g.controllerArg, g.objectName()); err != nil {
		return err
	}
	if declared := g.selected.Declared; g.name == "" && declared != nil && g.selected.HeldDeletions > 0 {
		if err := r.permissions.annotate(ctx, *declared, setpoint.AnnotationAllowDeletions, g.selected.AllowDeletions); err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "%s: %s allowed\n", clean(g.selected.Name), plural(g.selected.HeldDeletions, "deletion", "deletions"))
		return nil
	}
	return g.allowEach(ctx)
}

// allowEach allows the held deletions of each parent.
func (g *objectGetter) allowEach(ctx context.Context) error {
	parents, _, err := g.objects(ctx)
	if err != nil {
		return err
	}
	allowed := 0
	for _, parent := range parents {
		if parent.HeldDeletions == 0 {
			continue
		}
		if err := g.permissions.annotate(ctx, parent.Ref, setpoint.AnnotationAllowDeletions, parent.AllowDeletions); err != nil {
			return err
		}
		allowed++
		fmt.Fprintf(g.stdout, "%s: %s allowed\n", clean(nameOf(parent.Ref)), plural(parent.HeldDeletions, "deletion", "deletions"))
	}
	if allowed == 0 {
		fmt.Fprintf(g.stdout, "%s has no held deletions\n", clean(cmp.Or(g.name, g.selected.Name)))
	}
	return nil
}

// annotate sets an annotation on an object, with the user's permissions.
func (r *permissions) annotate(ctx context.Context, ref object.Ref, key, value string) error {
	metadata := map[string]any{"annotations": map[string]string{key: value}}
	if ref.UID != "" {
		metadata["uid"] = ref.UID
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("encode patch: %w", err)
	}
	if _, err := r.api.Patch(ctx, ref, types.MergePatchType, patch, userclient.WriteOptions{}); err != nil {
		return fmt.Errorf("annotate %s: %w", nameOf(ref), err)
	}
	return nil
}
