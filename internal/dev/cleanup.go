package dev

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/dev/inventory"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/manager/leader"
)

// CleanupOptions configure Cleanup.
type CleanupOptions struct {
	// Run is the run to clean up, of this user, machine and folder if several have its name; the zero value is the
	// only one there is.
	Run inventory.Run
	// Namespaces are those that may have the inventory. Limited excludes others.
	Namespaces []string
	Limited    bool
	// Manager has the configuration of the cluster, the version and the log.
	Manager manager.Options
	// Report is called with a line for each removed or kept object.
	Report func(format string, args ...any)
}

// Cleanup removes what a run has created, and returns how many objects are kept.
func Cleanup(ctx context.Context, o CleanupOptions) (kept int, err error) {
	i, err := o.choose(ctx)
	if err != nil {
		return 0, err
	}
	o.Report("cleaning up what %s created from %s (%s)", i.Owner, i.Dir, i)
	lease := i.Lease()
	err = leader.CheckStopped(ctx, o.Manager.Config, lease, func(holder, _ string, most time.Duration) {
		o.Report("waiting up to %s to see whether %s still runs", most, holder)
	})
	if err != nil {
		return 0, err
	}
	options := o.Manager
	options.Namespace, options.Namespaces, options.DevRun = lease.Namespace, i.Namespaces, i.ID()
	options.LeaderElection = leader.Election{Name: lease.Name, Namespace: lease.Namespace}
	err = manager.ReleaseDevRun(ctx, options, func(line string) { o.Report("%s", line) })
	if err != nil {
		return 0, err
	}
	shared, err := manifest.NewShared(o.Manager.Config, i, i.Namespaces)
	if err != nil {
		return 0, err
	}
	if err := o.removeAll(ctx, shared); err != nil {
		return 0, err
	}
	if len(i.Entries) > 0 {
		return len(i.Entries), nil
	}
	return 0, discard(ctx, o.Manager.Config, i)
}

// choose returns the inventory to clean up.
func (o *CleanupOptions) choose(ctx context.Context) (*inventory.Inventory, error) {
	all, err := inventory.List(ctx, o.Manager.Config, o.Namespaces)
	if err != nil {
		return nil, err
	}
	all = slices.DeleteFunc(all, func(i *inventory.Inventory) bool {
		return o.Run.Name != "" && i.Name != o.Run.Name || o.Limited && !slices.Contains(o.Namespaces, i.Lease().Namespace)
	})
	if own := slices.IndexFunc(all, func(i *inventory.Inventory) bool { return i.CheckOwner(o.Run) == nil }); own >= 0 {
		return all[own], nil
	}
	switch len(all) {
	case 0:
		return nil, fmt.Errorf("%s: %w; there is nothing to remove", strings.TrimSpace("run "+o.Run.Name), inventory.ErrNone)
	case 1:
		return all[0], nil
	}
	names := lists.Map(all, func(i *inventory.Inventory) string {
		return fmt.Sprintf("%s of %s in %s, %s", i.Name, i.Owner, i.Dir, i)
	})
	return nil, fmt.Errorf("several runs have created objects; choose one by its DIR or FILE, or by the --namespaces of its inventory:\n%s",
		strings.Join(names, "\n"))
}

// removeAll removes the objects, the last created first: examples before controllers, these before CRDs.
func (o *CleanupOptions) removeAll(ctx context.Context, shared *manifest.Shared) error {
	var problems []error
	for _, e := range slices.Backward(slices.Clone(shared.Inventory.Entries)) {
		kept, err := shared.Remove(ctx, e)
		switch {
		case err != nil:
			problems = append(problems, fmt.Errorf("delete %s: %w", e, err))
		case kept != "":
			o.Report("%s kept: it %s", e, kept)
		default:
			o.Report("%s deleted", e)
		}
	}
	return errors.Join(problems...)
}

// discard deletes an empty inventory, and the Lease that its session held.
func discard(ctx context.Context, config *rest.Config, i *inventory.Inventory) error {
	client, err := coordination.NewForConfig(config)
	if err != nil {
		return err
	}
	err = client.Leases(i.Lease().Namespace).Delete(ctx, i.Lease().Name, metav1.DeleteOptions{})
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return errors.Join(err, i.Delete(ctx))
}
