package cache

import (
	"iter"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// View is one client's view of a watch.
type View struct {
	watch         *watch
	handle        func(Event)
	release       func()
	ready         chan struct{}
	readyOrFailed chan struct{}

	// Guarded by watch.deliverMu.
	readyOrFailedClosed, closed bool
}

// Get returns an object, or nil.
func (v *View) Get(namespace, name string) *object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.objects[key{namespace, name}]
}

// Owned returns the objects that an owner controls, sorted by namespace and name. Those of a namespaced owner
// are in its namespace: an owner reference from elsewhere is invalid or forged, and the garbage collector
// does not remove it as long as the object has a finalizer.
func (v *View) Owned(owner *object.Object) []*object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return slices.Clone(v.watch.cache.owned(owner.UID(), owner.Namespace()))
}

// CountOwned returns the number of objects of Owned, for an owner's UID and namespace.
func (v *View) CountOwned(uid, namespace string) int {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return len(v.watch.cache.owned(uid, namespace))
}

// Orphans returns the objects without a controller that match the selector, sorted by
// namespace and name. An empty namespace means all.
func (v *View) Orphans(namespace string, selector labels.Selector) []*object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.orphans(namespace, selector)
}

// All iterates over the current objects, in no order.
func (v *View) All() iter.Seq[*object.Object] { return slices.Values(v.snapshot()) }

// snapshot allows callers of All to use the view meanwhile.
func (v *View) snapshot() []*object.Object {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.all()
}

// Len returns the number of objects.
func (v *View) Len() int {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return len(v.watch.cache.objects)
}

// Version returns the resource version up to which all events have arrived.
func (v *View) Version() uint64 {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return v.watch.cache.latestVersion
}

// Ready is closed when all objects have been listed and passed to the handler.
func (v *View) Ready() <-chan struct{} { return v.ready }

// ReadyOrFailed is closed with Ready, or earlier when the watch fails: see Err.
func (v *View) ReadyOrFailed() <-chan struct{} { return v.readyOrFailed }

// Synced reports whether Ready is closed.
func (v *View) Synced() bool {
	select {
	case <-v.ready:
		return true
	default:
		return false
	}
}

// Err returns the error of the watch, which is retried; nil while it works.
func (v *View) Err() error { return v.watch.health.current() }

// ObserveWrite stores the result of a write, so that it is read at once, unless the cache has
// a newer version. It notifies the handlers of other views. The handler of this view is
// notified only if another client's change came between.
func (v *View) ObserveWrite(o *object.Object) {
	w := v.watch
	selected := w.selects(o)
	v.noteWrite(o, false)
	w.apply(func(c *watchCache) []notification { return c.writeReturned(o, v, selected) })
}

// ObserveDelete removes an object that this client deleted, and notifies the handlers of
// other views.
func (v *View) ObserveDelete(o *object.Object) {
	v.noteWrite(o, true)
	v.watch.apply(func(c *watchCache) []notification { return c.deleteReturned(o, v) })
}

// Close closes the view. Its handler does not run after Close.
func (v *View) Close() {
	v.watch.removeView(v)
	v.release()
}
