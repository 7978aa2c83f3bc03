package cache

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// View is one user's share of a watch.
type View struct {
	watch         *watch
	handle        func(Event)
	release       func()
	ready         chan struct{}
	readyOrFailed chan struct{}

	// Guarded by watch.order.
	readyClosed, readyOrFailedClosed, closed bool
}

// Get returns an object, or nil where there is none.
func (v *View) Get(namespace, name string) *object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.objects[key{namespace, name}]
}

// Owned lists the objects whose controller has the UID, sorted by namespace and
// name.
func (v *View) Owned(uid string) []*object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return slices.Clone(v.watch.cache.index[ownerKey(uid)])
}

// CountOwned is how many objects Owned lists.
func (v *View) CountOwned(uid string) int {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return len(v.watch.cache.index[ownerKey(uid)])
}

// Orphans lists the objects without a controller that match the selector, sorted
// by namespace and name. An empty namespace means any.
func (v *View) Orphans(namespace string, selector labels.Selector) []*object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.orphans(namespace, selector)
}

// All iterates over the objects there are at this moment, in no order.
func (v *View) All() iter.Seq[*object.Object] {
	return func(yield func(*object.Object) bool) {
		for _, o := range v.snapshot() {
			if !yield(o) {
				return
			}
		}
	}
}

// snapshot lets callers of All do with the view what they like meanwhile.
func (v *View) snapshot() []*object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.all()
}

// Len is how many objects there are.
func (v *View) Len() int {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return len(v.watch.cache.objects)
}

// Version is how far the API server's word has come: what happened up to it is
// known here.
func (v *View) Version() uint64 {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.latestVersion
}

// Ready is closed when all objects have been listed once and the view's handler
// has been told of them.
func (v *View) Ready() <-chan struct{} { return v.ready }

// ReadyOrFailed is closed when Ready is, or before that when the watch has failed and
// Err says how: there is nothing to be gained by waiting any longer.
func (v *View) ReadyOrFailed() <-chan struct{} { return v.readyOrFailed }

// Synced says that Ready is closed.
func (v *View) Synced() bool {
	select {
	case <-v.ready:
		return true
	default:
		return false
	}
}

// Err is nil while the watch works; else it is what the API server, or the way
// there, last said to it. The watch keeps trying.
func (v *View) Err() error { return v.watch.health.current() }

// ObserveWrite tells what a write of the view's user returned, so that it is read at
// once. It changes nothing unless it is newer than what is there. The handlers
// of the other views are told; this view's own is not, unless somebody else's
// change turns out to have come between.
func (v *View) ObserveWrite(o *object.Object) {
	w := v.watch
	selected := w.selects(o)
	w.apply(func(c *watchCache) []notification { return c.writeReturned(o, v, selected) })
}

// ObserveDelete tells that the object is gone after a delete of the view's user. The
// handlers of the other views are told.
func (v *View) ObserveDelete(o *object.Object) {
	v.watch.apply(func(c *watchCache) []notification { return c.deleteReturned(o, v) })
}

// Close ends the view. Its handler is not running any more when Close returns.
func (v *View) Close() {
	v.watch.removeView(v)
	v.release()
}
