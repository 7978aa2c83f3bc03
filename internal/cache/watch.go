package cache

import (
	"context"
	"fmt"
	"iter"
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	reflectors "k8s.io/client-go/tools/cache"
	"k8s.io/utils/clock"

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

// err returns why the watch fails; nil while it works.
func (w *watch) err() error {
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
	if failure.Text(w.err()) == failure.Text(err) {
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

func (w *watch) run(ctx context.Context, client rest.Interface, running *sync.WaitGroup) {
	src := &listWatcher{watch: w, client: client, running: running}
	src.connection = &connection{options: w.options, report: src.reportLost}
	waits := reflectorClock{ctx: ctx, connection: src.connection}
	lists := &reflectors.ListWatch{ListWithContextFunc: src.list, WatchFuncWithContext: src.open}
	reflector := reflectors.NewReflectorWithOptions(lists, nil, reflectorStore{w}, reflectors.ReflectorOptions{
		Name:            w.selection.String(),
		TypeDescription: w.selection.Resource.String(),
		Clock:           waits,
		Backoff:         &wait.Backoff{Duration: 1}, // The clock computes the delay.
	})
	// RunWithContext would let the delay grow even if watches worked in between: a
	// reflector resets it only after two minutes without failures.
	for ctx.Err() == nil {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil {
			w.options.Log.Debug("watch failed", "selection", w.selection.String(), "error", err)
		}
		<-waits.After(0)
	}
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
	if w.manual == nil {
		for o := range v.All() {
			v.notify(Event{New: o})
		}
	}
	if w.lists.Load() > 0 {
		v.markReady()
	}
	if w.err() != nil {
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
		Err:       w.err(),
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
func (v *View) Err() error { return v.watch.err() }

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

// Adapters between a watch and client-go's Reflector, which knows when to list, where to resume and how long to wait.

// listItem is an object for the reflector, which needs only its name and version.
type listItem struct{ *object.Object }

// GetObjectKind is not used.
func (i listItem) GetObjectKind() schema.ObjectKind { return schema.EmptyObjectKind }

// DeepCopyObject returns the item itself, since objects are immutable.
func (i listItem) DeepCopyObject() runtime.Object { return i }

// GetObjectMeta returns the metadata that the reflector needs.
func (i listItem) GetObjectMeta() metav1.Object {
	return &metav1.ObjectMeta{Namespace: i.Namespace(), Name: i.Name(), ResourceVersion: i.ResourceVersion()}
}

// reflectorStore is the store that the reflector fills.
type reflectorStore struct{ watch *watch }

var _ reflectors.ReflectorBookmarkStore = reflectorStore{}

// Add handles an ADDED event.
func (s reflectorStore) Add(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverUpdated(obj.(listItem).Object) })
	return nil
}

// Update handles a MODIFIED event.
func (s reflectorStore) Update(obj any) error { return s.Add(obj) }

// Delete handles a DELETED event.
func (s reflectorStore) Delete(obj any) error {
	s.watch.apply(func(c *watchCache) []notification { return c.serverDeleted(obj.(listItem).Object) })
	return nil
}

// Bookmark handles a BOOKMARK event.
func (s reflectorStore) Bookmark(resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err == nil {
		s.watch.apply(func(c *watchCache) []notification { c.advance(version); return nil })
	}
	return err
}

// Replace handles a complete list.
func (s reflectorStore) Replace(items []any, resourceVersion string) error {
	version, err := parseVersion(resourceVersion)
	if err != nil {
		return err
	}
	list := make([]*object.Object, len(items))
	for i := range items {
		list[i] = items[i].(listItem).Object
	}
	s.watch.replace(list, version)
	return nil
}

// Resync does nothing: resyncs are those of the queue.
func (s reflectorStore) Resync() error { return nil }

func parseVersion(text string) (uint64, error) {
	version, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return 0, fmt.Errorf("resource version %q is no integer", text)
	}
	return version, nil
}

// reflectorClock is the real clock, except that it waits for the delay of the connection, or until ctx ends. The
// reflector waits only between attempts, and ignores its context when a watch is refused.
type reflectorClock struct {
	clock.RealClock
	ctx        context.Context //nolint:containedctx // The interface of clocks passes no context.
	connection *connection
}

// After returns a channel that receives when the next attempt is due, or when ctx ends.
func (c reflectorClock) After(time.Duration) <-chan time.Time {
	passed := make(chan time.Time, 1)
	waiting, cancel := context.WithTimeout(c.ctx, c.connection.nextDelay())
	context.AfterFunc(waiting, func() {
		cancel()
		passed <- time.Now()
	})
	return passed
}
