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
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

func (p *program) allowDeletionsCommand() *cobra.Command {
	f := newGetFlags()
	c := &cobra.Command{
		Use:   "allow-deletions CONTROLLER [PARENT]",
		Short: "Let deletions go on that the deletion guard holds",
		Long: `Confirm the deletions that the deletion guard of a controller holds: of the children
of all its parents, or of one. Look at them first, with 'setpoint get CONTROLLER -A'
and 'setpoint why KIND/PARENT'.

It sets the annotation setpoint.dev/allow-deletions to the value that fits what is held
now; deletions that are wanted later are guarded as before. A controller of a Go program
has no object: the annotation is set on each parent. It takes the right to patch these.`,
		Example: `  setpoint allow-deletions tenants          # all that the controller holds
  setpoint allow-deletions tenants red      # the children of one parent`,
		Args: func(_ *cobra.Command, args []string) error {
			switch {
			case len(args) == 0:
				return usageError{errors.New("no controller is named; `setpoint get` shows those that hold deletions")}
			case len(args) > 2:
				return usageError{fmt.Errorf("unexpected argument %q", args[2])}
			}
			return nil
		},
		ValidArgsFunction: p.completeRunning(f, true),
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
	reader := &reader{r.permissions.api}
	g := &objectGetter{session: r, getFlags: f, controllerArg: args[0]}
	if len(args) == 2 {
		g.name = args[1]
	}
	f.everywhere = g.name == ""
	if g.selected, g.source, err = g.controller(ctx, g.controllerArg, g.objectName()); err != nil {
		return err
	}
	if declared := g.selected.Declared; g.name == "" && declared != nil && g.selected.HeldDeletions > 0 {
		if err := reader.annotate(ctx, *declared, setpoint.AnnotationAllowDeletions, g.selected.AllowDeletions); err != nil {
			return err
		}
		fmt.Fprintf(p.stdout, "%s: %s may go on.\n", clean(g.selected.Name), plural(g.selected.HeldDeletions, "deletion", "deletions"))
		return nil
	}
	return p.allowEach(ctx, g, reader)
}

// allowEach confirms the deletions of the children of single parents.
func (p *program) allowEach(ctx context.Context, g *objectGetter, reader *reader) error {
	parents, _, err := g.objects(ctx)
	if err != nil {
		return err
	}
	allowed := 0
	for _, parent := range parents {
		if parent.HeldDeletions == 0 {
			continue
		}
		if err := reader.annotate(ctx, parent.Ref, setpoint.AnnotationAllowDeletions, parent.AllowDeletions); err != nil {
			return err
		}
		allowed++
		fmt.Fprintf(p.stdout, "%s: %s may go on.\n", clean(nameOf(parent.Ref)), plural(parent.HeldDeletions, "deletion", "deletions"))
	}
	if allowed == 0 {
		fmt.Fprintf(p.stdout, "%s holds no deletions.\n", clean(cmp.Or(g.name, g.selected.Name)))
	}
	return nil
}

// annotate sets an annotation of an object, with the user's own rights.
func (r *reader) annotate(ctx context.Context, ref model.Ref, key, value string) error {
	metadata := map[string]any{"annotations": map[string]string{key: value}}
	if ref.UID != "" {
		metadata["uid"] = ref.UID
	}
	patch, err := json.Marshal(map[string]any{"metadata": metadata})
	if err != nil {
		return fmt.Errorf("write a patch: %w", err)
	}
	if _, err := r.api.Patch(ctx, ref, types.MergePatchType, patch); err != nil {
		return fmt.Errorf("annotate %s: %w", nameOf(ref), err)
	}
	return nil
}
