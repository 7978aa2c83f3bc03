// Package release is `setpoint release`: it removes Setpoint's finalizers from objects.
package release

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/apimachinery/pkg/types"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/dashboard/ownertree"
	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// releaseFlags are the flags of `setpoint release`.
type releaseFlags struct {
	client.PlaceFlags

	yes bool
}

// Command returns `setpoint release`.
func Command(p *command.Invocation) *cobra.Command {
	f := &releaseFlags{}
	c := &cobra.Command{
		Use:   "release KIND/NAME…",
		Short: "Remove Setpoint's finalizers from objects that cannot be deleted",
		Long: `Remove Setpoint's finalizers from objects, with your own permissions: the last way out
where a deletion waits for something that will not come back, such as a hook. It needs no
running Setpoint, and permission to get and patch the objects.

Nothing is called any more: neither the finalize hook nor handlers of Delete. What they would
have cleaned up stays. Children with an owner reference go with the object.

Without --yes it only says what it would remove, and fails. Finalizers of others stay, also
those of a Metacontroller that runs beside Setpoint.

Exit codes: 0 all released, 1 failure, or nothing to release, 2 wrong usage.`,
		Example: `  setpoint release team/red -n shop        # what would be removed
  setpoint release team/red -n shop --yes`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.UsageErrorf("no object given; use KIND/NAME")
			}
			for _, arg := range args {
				if _, _, err := client.ParseObject([]string{arg}); err != nil {
					return err
				}
			}
			return nil
		},
		ValidArgsFunction: client.Complete(&f.Cluster, &f.Namespace, client.CompleteObject),
		RunE:              func(c *cobra.Command, args []string) error { return run(c.Context(), p, f, args) },
	}
	f.RegisterPlace(c, "", client.OfObjects)
	c.Flags().BoolVar(&f.yes, "yes", false, "remove the finalizers, without a call of any hook or handler")
	return c
}

func run(ctx context.Context, p *command.Invocation, f *releaseFlags, args []string) error {
	user, err := f.Connect()
	if err != nil {
		return err
	}
	r := releaser{Invocation: p, flags: f, client: user}
	if r.owned, err = ownFinalizers(ctx, user.Cluster); err != nil {
		return err
	}
	var failures []error
	for _, arg := range args {
		kind, name, err := client.ParseObject([]string{arg})
		if err != nil {
			return err
		}
		ref, err := r.client.Find(ctx, kind, name, user.Cluster.Namespace)
		if err == nil {
			err = r.release(ctx, ref)
		}
		failures = append(failures, err)
	}
	if err := errors.Join(failures...); err != nil || f.yes {
		return err
	}
	return errors.New("nothing was removed; add --yes to remove these finalizers")
}

// releaser removes finalizers from objects.
type releaser struct {
	*command.Invocation

	flags  *releaseFlags
	client *client.Client
	// owned says of which controller a finalizer is.
	owned map[string]string
}

// ownFinalizers returns the finalizers of the controllers that Setpoint runs, with their names. Those of its own prefix
// are known without.
func ownFinalizers(ctx context.Context, cluster manager.Cluster) (map[string]string, error) {
	known, err := manager.NewObjectPermissions(manager.Options{Config: cluster.Config}, nil)
	if err != nil {
		return nil, err
	}
	all := map[string]string{}
	stored, err := known.Stored(ctx)
	if err != nil {
		return nil, err
	}
	for _, o := range stored {
		kind, _ := compile.KindOf(o)
		if !kind.Metacontroller() || o.HasFinalizer(setpoint.FinalizerReleaseParents) {
			all[kind.Footprint(o).Finalizer] = kind.Name + "/" + o.Name()
		}
	}
	return all, nil
}

// release releases one object, or says what would be removed.
func (r *releaser) release(ctx context.Context, ref object.Ref) error {
	stored, err := r.client.Read(ctx, ref)
	switch {
	case err != nil:
		return err
	case stored == nil:
		return fmt.Errorf("%s not found", client.NameOf(ref))
	case stored.HasFinalizer(setpoint.FinalizerReleaseParents):
		return command.WithHint(
			fmt.Errorf("%s declares a controller: without its finalizer those of its parents would stay", client.NameOf(ref)),
			"delete it, and Setpoint releases its parents; without a Setpoint, `setpoint uninstall` does so",
		)
	}
	ours := slices.DeleteFunc(stored.Finalizers(), func(name string) bool {
		return !strings.HasPrefix(name, setpoint.GroupVersion.Group+"/") && r.owned[name] == ""
	})
	if len(ours) == 0 {
		return fmt.Errorf("%s has no finalizer of Setpoint; it has: %s", client.NameOf(ref),
			output.Clean(cmp.Or(strings.Join(stored.Finalizers(), ", "), "none")))
	}
	for _, name := range ours {
		if !r.flags.yes {
			r.say(stored, ref, name, "would be removed")
			continue
		}
		body, err := controller.RemovalOf(name, stored)
		if err != nil {
			return err
		}
		ref.UID = stored.UID()
		patched, err := r.client.API.Patch(ctx, ref, types.MergePatchType, body, userclient.WriteOptions{})
		if err != nil {
			return fmt.Errorf("remove the finalizer %s from %s: %w", name, client.NameOf(ref), apply.ExplainNamespace(err))
		}
		r.say(stored, ref, name, "removed")
		if stored, err = object.Parse(patched); err != nil {
			return err
		}
	}
	r.sayChildren(ctx, stored, ref)
	return nil
}

// maxChildren is the most children that are named.
const maxChildren = 20

// sayChildren names the objects with an owner reference to a released one, as far as the user may list them.
func (r *releaser) sayChildren(ctx context.Context, stored *object.Object, ref object.Ref) {
	ref.UID = stored.UID()
	kinds, _ := r.client.API.Kinds(ctx)
	found := ownertree.NewOwnerIndex(r.client.API, 0).Children(ctx, ref, kinds...) // What cannot be listed does not hold the release.
	if len(found) == 0 {
		return
	}
	names := lists.Map(found, func(n *ownertree.Node) string { return client.NameOf(n.Ref) })
	slices.Sort(names)
	if more := len(names) - maxChildren; more > 0 {
		names = append(names[:maxChildren], fmt.Sprintf("%d more", more))
	}
	then := "stay"
	if stored.Deleting() {
		then = "are left to the garbage collector"
	}
	fmt.Fprintf(r.Stdout, "%s: its children %s: %s\n", client.NameOf(ref), then, strings.Join(names, ", "))
}

// say says what became of a finalizer, and what stays.
func (r *releaser) say(stored *object.Object, ref object.Ref, finalizer, what string) {
	of := ""
	if controller := r.owned[finalizer]; controller != "" {
		of = " of " + controller
	}
	then := "it is not being deleted: a controller that still runs adds the finalizer again"
	if stored.Deleting() {
		then = "the finalize hook or handlers of Delete are not called any more, and what they would clean up stays"
	}
	fmt.Fprintf(r.Stdout, "%s: finalizer %s%s %s; %s\n", client.NameOf(ref), output.Clean(finalizer), output.Clean(of), what, then)
}
