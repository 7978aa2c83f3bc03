package controller

import (
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Owned are the watches of the owned kinds, in their order.
type Owned struct {
	kinds   []object.Resource
	watches [][]Watch
}

// WatchOwned starts the watches of the owned kinds that are served, in all their namespaces. A selection may limit them
// further.
func (b *Base) WatchOwned(selection cache.Selection, changed func(cache.Event)) {
	b.Owned = Owned{b.options.Owns, make([][]Watch, len(b.options.Owns))}
	for i, resource := range b.options.Owns {
		if resource.Unserved {
			continue
		}
		selection.Resource = resource
		for _, selection.Namespace = range b.options.NamespacesOf(resource) {
			view := b.Tools.Store.Watch(selection, changed)
			b.AddWatch(selection, view)
			b.Owned.watches[i] = append(b.Owned.watches[i], Watch{resource, selection.Namespace, view})
		}
	}
}

// OwnedBy returns the owned objects that an object controls, one list for each kind.
func (w *Owned) OwnedBy(o *object.Object) [][]*object.Object {
	all := make([][]*object.Object, len(w.watches))
	for i, watches := range w.watches {
		for _, one := range watches {
			all[i] = append(all[i], one.View.Owned(o)...)
		}
	}
	return all
}

// Children returns the owned objects that an object controls, in the order of their kinds.
func (w *Owned) Children(o *object.Object) []record.Child {
	var all []record.Child
	for i, owned := range w.OwnedBy(o) {
		for _, one := range owned {
			all = append(all, record.Child{Resource: w.kinds[i], Object: one})
		}
	}
	return all
}

// Orphans returns the objects of one of the owned kinds that have no controller and match a selector.
func (w *Owned) Orphans(kind int, namespace string, matching labels.Selector) (all []*object.Object) {
	for _, one := range w.watches[kind] {
		all = append(all, one.View.Orphans(namespace, matching)...)
	}
	return all
}

// CountOwned returns how many owned objects the UID of an object in a namespace controls.
func (w *Owned) CountOwned(uid, namespace string) (n int) {
	for _, watches := range w.watches {
		for _, one := range watches {
			n += one.View.CountOwned(uid, namespace)
		}
	}
	return n
}

// OwnedView returns the view that has an object if it is of an owned kind, else nil.
func (w *Owned) OwnedView(resource object.Resource, o *object.Object) *cache.View {
	if i := slices.Index(w.kinds, resource); i >= 0 {
		for _, one := range w.watches[i] {
			if one.Covers(resource, o) {
				return one.View
			}
		}
	}
	return nil
}

// UserFor is the user of the ServiceAccount for an object in a namespace; empty for Setpoint itself.
func (t *Tools) UserFor(namespace string) string { return t.account.UserFor(namespace) }

// WriterFor writes, and reads from the API server, as the ServiceAccount.
func (t *Tools) WriterFor(namespace string) *apply.Writer {
	return t.Writer.As(t.UserFor(namespace))
}

// CheckReads returns an error unless the ServiceAccount may read the object and the owned kinds: the caches have what
// Setpoint itself may read. It does not depend on the objects that exist, so that others cannot make a run fail by an
// object of theirs.
func (r *Run) CheckReads(ctx context.Context) error {
	b, namespace := r.base, r.Stored.Namespace()
	user := b.Tools.UserFor(namespace)
	if err := b.Tools.Access.CheckRead(ctx, user, b.options.Resource, namespace, r.Stored.Name()); err != nil {
		return err
	}
	for _, owned := range b.options.Owns {
		if owned.Unserved {
			continue
		}
		namespaces := []string{namespace}
		if !b.options.Resource.Namespaced {
			namespaces = b.options.NamespacesOf(owned)
		}
		if err := b.Tools.Access.CheckList(ctx, user, owned, namespaces...); err != nil {
			return err
		}
	}
	return nil
}
