package crds

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// reasonCRDDeleted: a user deleted a CRD that Setpoint installed; Setpoint creates it again at its next start.
// What to do: restart Setpoint, or apply the CRD.
const reasonCRDDeleted = "DefinitionDeleted"

// wanted returns the CRDs to install. Those deleted while this process runs stay deleted, also
// after a new leader election.
func (i *Installer) wanted() []Manifest {
	i.mu.Lock()
	defer i.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(i.options.Install), func(d Manifest) bool { return i.deleted[d.Name()] })
}

// CheckDeleted returns an error if CRDs are deleted.
func (i *Installer) CheckDeleted() error {
	i.mu.Lock()
	defer i.mu.Unlock()
	names := lists.Filter(slices.Sorted(maps.Keys(i.deleted)), func(name string) bool { return i.deleted[name] })
	if len(names) == 0 {
		return nil
	}
	return fmt.Errorf("deleted while this program runs: CustomResourceDefinition %s; restart the program to create it again",
		strings.Join(names, ", "))
}

// Watch watches the installed CRDs until the returned function is called: all of them, or each
// by its name, since a Go program may be allowed to watch only its own CRDs.
func (i *Installer) Watch(ctx context.Context, store *cache.Cache, byName bool) (closeAll func()) {
	installed := map[string]Manifest{}
	for _, d := range i.options.Install {
		installed[d.Name()] = d
	}
	names := slices.Sorted(maps.Keys(installed))
	if !byName && len(names) > 0 {
		names = []string{""}
	}
	var views []*cache.View
	for _, name := range names {
		views = append(views, store.Watch(cache.Selection{Resource: Resource, Name: name, Metadata: true}, func(e cache.Event) {
			if d, ours := installed[e.Object().Name()]; ours {
				i.observe(ctx, d, e.New != nil)
			}
		}))
	}
	return func() {
		for _, view := range views {
			view.Close()
		}
	}
}

// observe handles the creation or deletion of a CRD.
func (i *Installer) observe(ctx context.Context, d Manifest, exists bool) {
	o := &i.options
	i.mu.Lock()
	changed := i.deleted[d.Name()] == exists
	i.deleted[d.Name()] = !exists
	i.mu.Unlock()
	switch {
	case !changed || ctx.Err() != nil:
	case exists:
		o.Log.Info("CRD exists again", "crd", d.Name())
	default:
		o.Log.Error("CRD was deleted; restart this program to create it again", "crd", d.Name())
		o.EventAt(hook.ObjectEvent{
			APIVersion: Resource.APIVersion(), Kind: Resource.Kind, Name: d.Name(),
			Event: hook.Event{Type: corev1.EventTypeWarning, Reason: reasonCRDDeleted,
				Message: fmt.Sprintf("deleted while %s runs; restart %[1]s to create it again", o.Program)},
		})
	}
}
