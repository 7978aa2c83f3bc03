package controller

import (
	"cmp"
	"context"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Watch is one watch of a controller.
type Watch struct {
	Resource  object.Resource
	Namespace string
	View      *cache.View
}

// String returns the resource, and the namespace if it is limited to one.
func (w *Watch) String() string {
	if w.Namespace == "" {
		return w.Resource.String()
	}
	return w.Resource.String() + " in " + w.Namespace
}

// Covers reports whether the watch delivers an object.
func (w *Watch) Covers(resource object.Resource, o *object.Object) bool {
	return w.Resource == resource && (w.Namespace == "" || w.Namespace == o.Namespace())
}

// WatchObjects starts a watch of reconciled objects, which come before all others.
func (b *Base) WatchObjects(selection cache.Selection, changed func(cache.Event)) {
	b.objects = append(b.objects, b.Watch(selection, changed))
}

// Watch starts a watch.
func (b *Base) Watch(selection cache.Selection, changed func(cache.Event)) *cache.View {
	view := b.Store.Watch(selection, changed)
	b.watches = append(b.watches, Watch{selection.Resource, selection.Namespace, view})
	return view
}

// SetWatching ends the wait of event handlers: all watches have been added.
func (b *Base) SetWatching() { close(b.watching) }

// AwaitWatches waits until all watches have been added.
func (b *Base) AwaitWatches() { <-b.watching }

// Watches are all watches, those of the reconciled objects first.
func (b *Base) Watches() []Watch { return b.watches }

// WaitForSync waits until the caches have synced and reports whether they have.
func (b *Base) WaitForSync(ctx context.Context) bool {
	for _, w := range b.watches {
		select {
		case <-w.View.Ready():
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// Synced reports whether all watches have delivered what exists.
func (b *Base) Synced() bool {
	return !slices.ContainsFunc(b.watches, func(w Watch) bool { return !w.View.Synced() })
}

// Close ends the watches and drops what is queued. Run should have returned.
func (b *Base) Close() {
	b.Queue.Close()
	for _, w := range b.watches {
		w.View.Close()
	}
}

// OwnerOf returns the reconciled object that controls another one, or nil.
func (b *Base) OwnerOf(owned *object.Object) *object.Object {
	owner, controlled := owned.Controller()
	if !controlled || owner.Kind != b.options.Resource.Kind || object.GroupOf(owner.APIVersion) != b.options.Resource.Group {
		return nil
	}
	key := queue.Key{Name: owner.Name}
	if b.options.Resource.Namespaced {
		key.Namespace = owned.Namespace()
	}
	if o := b.Get(key); o != nil && o.UID() == owner.UID {
		return o
	}
	return nil
}

// CauseOf returns the cause of an event about a reconciled object; Unspecified for none. The
// function isEdit reports whether a change is more than one of the status.
func (b *Base) CauseOf(e cache.Event, isEdit func(cache.Event) bool) queue.CauseKind {
	<-b.watching
	switch {
	case e.New == nil:
		return queue.ParentChanged
	case !b.manages(e.New) && (e.Old == nil || !b.manages(e.Old)):
		return queue.Unspecified
	case e.Old == nil && slices.ContainsFunc(b.objects, func(view *cache.View) bool { return !view.Synced() }):
		return queue.Start
	case e.Old == nil || e.Old.UID() != e.New.UID():
		return queue.ParentChanged
	case plan.ReconcileRequested(e.Old, e.New):
		return queue.ReconcileRequested
	case e.Old.Digest() == e.New.Digest():
		return queue.Unspecified
	case b.loop.PhaseOf(e.Old) != b.loop.PhaseOf(e.New) || isEdit(e):
		return queue.ParentChanged
	}
	return queue.StatusChanged
}

// QueueObject queues the object of an event. The next run of a deleted one drops its memory.
func (b *Base) QueueObject(e cache.Event, kind queue.CauseKind) {
	cause := queue.Cause{Kind: kind, Version: b.tracedVersion(e.New)}
	if kind == queue.ReconcileRequested {
		cause = RequestCause(e.New)
	}
	if e.New == nil {
		b.recordDeletion(e.Old)
		b.Queue.Forget(KeyOf(e.Old))
	}
	b.Queue.Add(KeyOf(cmp.Or(e.New, e.Old)), cause)
}

// QueueOwner queues the object that controls another one.
func (b *Base) QueueOwner(owned *object.Object) {
	if owner := b.OwnerOf(owned); owner != nil {
		b.Queue.Add(KeyOf(owner), b.CauseBy(queue.ChildChanged, owned))
	}
}

// CauseBy is the cause of a reconcile that a child or a related object brings about.
func (b *Base) CauseBy(kind queue.CauseKind, o *object.Object) queue.Cause {
	return queue.Cause{Kind: kind, Detail: o.Kind(), Object: KeyOf(o), Version: b.tracedVersion(o)}
}

// RequestCause is the cause of a reconcile that a user requested on an object.
func RequestCause(o *object.Object) queue.Cause {
	cause := queue.Cause{Kind: queue.ReconcileRequested}
	if by := plan.ReconcileRequestOn(o).By; by != "" {
		cause.Detail = "requested by " + by
	}
	return cause
}

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
			b.Owned.watches[i] = append(b.Owned.watches[i], Watch{resource, selection.Namespace, b.Watch(selection, changed)})
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
func (w *Owned) Orphans(kind int, namespace string, matching labels.Selector) []*object.Object {
	return lists.FlatMap(w.watches[kind], func(one Watch) []*object.Object { return one.View.Orphans(namespace, matching) })
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

// recordDeletion records a deletion. It skips controllers with selectors on the server, where
// an object that stops matching looks deleted.
func (b *Base) recordDeletion(o *object.Object) {
	if !b.Unrecorded && !b.options.Filtered && b.manages(o) {
		b.Observer.Deleted(record.Deletion(b.options.Name, b.options.Resource, o, b.Now()))
	}
}

// tracedVersion returns the resource version of an object, by which a trace finds who wrote it; zero without traces.
func (b *Base) tracedVersion(o *object.Object) uint64 {
	if b.Tracer == nil || o == nil {
		return 0
	}
	return o.Version()
}
