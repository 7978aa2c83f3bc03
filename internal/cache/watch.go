package cache

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// watch is the watch of a selection, shared by its views.
type watch struct {
	selection Selection
	selector  labels.Selector
	options   Options
	stop      context.CancelFunc
	// manual is the cache of the watch if that has no connections.
	manual *Manual

	// reportMu orders reports, whose handlers may read the last error.
	reportMu sync.Mutex
	lastErr  atomic.Pointer[error]

	// viewCount is guarded by the mutex of the Cache.
	viewCount int

	// deliverMu is held while the cache changes and handlers run, so that they receive
	// events in order. It guards views.
	deliverMu sync.Mutex
	views     []*View

	// lists counts complete lists.
	lists atomic.Int64

	// mu guards only the cache: readers never wait for a handler.
	mu    sync.RWMutex
	cache watchCache
}

func newWatch(selection Selection, options Options) *watch {
	w := &watch{
		selection: selection,
		selector:  labels.Nothing(),
		options:   options,
		stop:      func() {},
		cache:     newWatchCache(),
	}
	w.cache.serverFiltered = selection.Fields != ""
	if selector, err := labels.Parse(selection.Labels); err == nil {
		w.selector = selector
	}
	return w
}

// currentErr returns why the watch fails; nil while it works.
func (w *watch) currentErr() error {
	if err := w.lastErr.Load(); err != nil {
		return *err
	}
	return nil
}

// report stores why the watch fails, nil if it works, and passes on what differs from the last report.
func (w *watch) report(err error) {
	if err != nil {
		err = fmt.Errorf("watch %s: %w", w.selection, err)
	}
	w.reportMu.Lock()
	defer w.reportMu.Unlock()
	if failure.Text(w.currentErr()) == failure.Text(err) {
		return
	}
	w.lastErr.Store(&err)
	if err != nil {
		w.markFailed()
	}
	switch selection := w.selection.String(); {
	case err == nil:
		w.options.Log.Info("watch works again", "selection", selection)
	case w.selection.Optional && apierrors.IsNotFound(err):
		w.options.Log.Debug("watch fails", "selection", selection, "error", err)
	default:
		w.options.Log.Warn("watch fails", "selection", selection, "error", err)
	}
	w.options.OnHealth(w.selection, err)
}

// apply changes the cache and notifies the handlers.
func (w *watch) apply(how func(*watchCache) []notification) {
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	w.mu.Lock()
	notifications := how(&w.cache)
	w.mu.Unlock()
	for _, n := range notifications {
		for _, v := range w.views {
			if n.isFor(v) {
				v.notify(n.Event)
			}
		}
	}
}

// replace stores a complete list. Then the views are ready.
func (w *watch) replace(list []*object.Object, version uint64) {
	w.apply(func(c *watchCache) []notification { return c.replace(list, version) })
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	w.lists.Add(1)
	for _, v := range w.views {
		v.markReady()
	}
}

// addView passes the existing objects to a new view, unless the cache is manual, and then all changes.
func (w *watch) addView(v *View) {
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	if v.closed {
		return
	}
	w.views = append(w.views, v)
	if w.manual == nil && v.handle != nil {
		for o := range v.All() {
			v.notify(Event{New: o})
		}
	}
	if w.lists.Load() > 0 {
		v.markReady()
	}
	if w.currentErr() != nil {
		v.markReadyOrFailed()
	}
}

// markFailed notifies the views that wait for the first list.
func (w *watch) markFailed() {
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	for _, v := range w.views {
		v.markReadyOrFailed()
	}
}

func (w *watch) removeView(v *View) {
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	v.closed = true
	w.views = slices.DeleteFunc(w.views, func(other *View) bool { return other == v })
	w.mu.Lock()
	defer w.mu.Unlock()
	maps.DeleteFunc(w.cache.pendingWrites, func(_ string, own *pendingWrites) bool { return own.view == v })
}

// selects reports whether the watch selects the object, as far as that is known here.
func (w *watch) selects(o *object.Object) bool {
	here := w.selection.Namespace == "" || w.selection.Namespace == o.Namespace()
	meant := w.selection.Name == "" || w.selection.Name == o.Name()
	return here && meant && w.selector.Matches(o.Labels())
}

// stat must not lock deliverMu: a handler may wait for the mutex of the Cache, which is held.
func (w *watch) stat() Stat {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return Stat{
		Selection: w.selection,
		Objects:   len(w.cache.objects),
		Bytes:     w.cache.bytes,
		Synced:    w.lists.Load() > 0,
		Lists:     int(w.lists.Load()),
		Err:       w.currentErr(),
	}
}

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

// All iterates over the current objects, in no order. The caller may use the view meanwhile.
func (v *View) All() iter.Seq[*object.Object] {
	v.watch.mu.RLock()
	defer v.watch.mu.RUnlock()
	return slices.Values(v.watch.cache.all())
}

// Stat returns the state of the watch.
func (v *View) Stat() Stat { return v.watch.stat() }

// Len returns the number of objects.
func (v *View) Len() int { return v.Stat().Objects }

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
func (v *View) Err() error { return v.watch.currentErr() }

// ObserveWrite stores the result of a write, so that it is read at once, unless the cache has
// a newer version. It notifies the handlers of other views. The handler of this view is
// notified only if another client's change came between.
func (v *View) ObserveWrite(o *object.Object) { v.observe(o, false) }

// ObserveDelete removes an object that this client deleted, and notifies the handlers of other views.
func (v *View) ObserveDelete(o *object.Object) { v.observe(o, true) }

func (v *View) observe(o *object.Object, deleted bool) {
	w := v.watch
	if w.manual != nil {
		w.manual.note(Write{Selection: w.selection, View: slices.Index(w.views, v), Object: o, Deleted: deleted})
	}
	selected := w.selects(o)
	w.apply(func(c *watchCache) []notification {
		if deleted {
			return c.deleteReturned(o, v)
		}
		return c.writeReturned(o, v, selected)
	})
}

// Close closes the view. Its handler does not run after Close.
func (v *View) Close() {
	v.watch.removeView(v)
	v.release()
}

// notify passes an event to the handler. The caller holds deliverMu.
func (v *View) notify(e Event) {
	if v.handle != nil {
		v.handle(e)
	}
}

// markReady closes Ready. The caller holds deliverMu.
func (v *View) markReady() {
	if !v.Synced() {
		close(v.ready)
		v.markReadyOrFailed()
	}
}

// markReadyOrFailed closes ReadyOrFailed. The caller holds deliverMu.
func (v *View) markReadyOrFailed() {
	if !v.readyOrFailedClosed {
		v.readyOrFailedClosed = true
		close(v.readyOrFailed)
	}
}
