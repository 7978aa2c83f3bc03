// Package cache caches objects of the API server: its watches are shared, counted by reference, compact and indexed.
//
// It contains the watch of one selection of objects, the cache that the watch fills, the indexes by owner and by label,
// and decoders that read lists and watch streams straight into object.Object. It knows nothing of parents, children or
// hooks, and never writes to the API server.
//
// Controllers read objects here and receive events; apply reports the results of writes;
// the manager reads the statistics.
package cache

import (
	"cmp"
	"context"
	"fmt"
	"iter"
	"log/slog"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Selection selects the objects of a watch. Equal selections share a watch.
type Selection struct {
	Resource object.Resource
	// Namespace is empty for all namespaces.
	Namespace string
	// Name selects one object, for clients that may watch no other; empty selects all.
	Name string
	// Labels is a label selector; empty selects all.
	Labels string
	// Fields is a field selector; empty selects all. Only the API server can evaluate it:
	// after a write the cache is right only when the event arrives.
	Fields string
	// Metadata requests only the metadata of objects.
	Metadata bool
	// Managed keeps metadata.managedFields, which are dropped by default.
	Managed bool
	// Optional means that the API server need not serve the resource: until it does, only debug logs say so.
	Optional bool
	// User is impersonated by the requests; empty for the user of the client.
	User string
}

// String returns such as "pods.v1 in default with app=web", for messages.
func (s Selection) String() string {
	text := s.Resource.String()
	for _, limit := range [...]struct{ word, to string }{
		{" in ", s.Namespace}, {" named ", s.Name}, {" with ", s.Labels}, {" where ", s.Fields},
	} {
		if limit.to != "" {
			text += limit.word + limit.to //nolint:perfsprint // For messages.
		}
	}
	if s.Metadata {
		text = "metadata of " + text
	}
	if s.Managed {
		text += " with managedFields"
	}
	return text
}

// Event is a change in the cache.
type Event struct {
	// Old is nil for an added object, New for a deleted one.
	Old, New *object.Object
}

// Object returns the new object, or the deleted one.
func (e Event) Object() *object.Object { return cmp.Or(e.New, e.Old) }

// Options of a Cache. The zero value works.
type Options struct {
	// Log defaults to slog.Default.
	Log *slog.Logger
	// OnHealth is called when a watch fails, its error changes or, with nil, it works again. It must be quick.
	OnHealth func(Selection, error)
	// MinBackoff is the first delay before a failed watch is retried, 250ms if zero. It doubles up to MaxBackoff, 30s.
	MinBackoff, MaxBackoff time.Duration
	// GracePeriod is how long a watch may be throttled (429) or disconnected before it counts as failing; 5s if zero.
	GracePeriod time.Duration
	// IdleTimeout is how long a list or a watch may receive nothing, headers included, before it is requested again on
	// another connection, since a dead connection may go unnoticed. Jitter adds up to a fifth. API servers end ordinary
	// requests after a minute and send watches a bookmark about every minute. 90s if zero.
	IdleTimeout time.Duration

	// onUnstreamed is called when the API server does not stream a list.
	onUnstreamed func()
}

func (o Options) withDefaults() Options {
	if o.Log == nil {
		o.Log = slog.Default()
	}
	if o.OnHealth == nil {
		o.OnHealth = func(Selection, error) {}
	}
	o.MinBackoff = cmp.Or(o.MinBackoff, 250*time.Millisecond)
	o.GracePeriod = cmp.Or(o.GracePeriod, 5*time.Second)
	o.IdleTimeout = cmp.Or(o.IdleTimeout, 90*time.Second)
	o.onUnstreamed = sync.OnceFunc(func() {
		o.Log.Info("the API server does not stream lists (WatchList); reading each at once, which takes more of its memory")
	})
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 30*time.Second)
	return o
}

// Cache shares watches among views of equal selections.
type Cache struct {
	client  rest.Interface
	options Options
	running sync.WaitGroup
	// startManual starts a watch without a connection; nil for real ones.
	startManual func(*watch)

	mu      sync.Mutex
	watches map[Selection]*watch
	closed  bool
}

// New returns a Cache. It sends no request before the first Watch.
func New(client rest.Interface, options Options) *Cache {
	return &Cache{client: client, options: options.withDefaults(), watches: map[Selection]*watch{}}
}

// Watch opens a view of the selection. The first view starts the watch, and closing the last one stops it.
//
// The handler, which may be nil, receives all existing objects and then every change in
// order, without gaps or duplicates. It never runs within Watch or twice at once. It must be
// quick, and must not call ObserveWrite, ObserveDelete or Close.
func (c *Cache) Watch(selection Selection, handle func(Event)) *View {
	if parsed, err := labels.Parse(selection.Labels); err == nil { // The API server reports invalid ones.
		selection.Labels = parsed.String() // So that equal selectors are equal strings.
	}
	v := &View{handle: handle, ready: make(chan struct{}), readyOrFailed: make(chan struct{})}
	v.markReadyOrFailed = sync.OnceFunc(func() { close(v.readyOrFailed) })
	v.markReady = sync.OnceFunc(func() { close(v.ready); v.markReadyOrFailed() })
	c.mu.Lock()
	defer c.mu.Unlock()
	w := c.watches[selection]
	if w == nil {
		w = newWatch(selection, c.options)
		c.watches[selection] = w
		c.start(w)
	}
	w.viewCount++
	v.watch, v.release = w, sync.OnceFunc(func() { c.release(w) })
	switch {
	case c.startManual != nil:
		w.addView(v)
	case !c.closed:
		c.running.Go(func() { w.addView(v) })
	}
	return v
}

// start starts a watch. The caller holds the lock.
func (c *Cache) start(w *watch) {
	switch {
	case c.startManual != nil:
		c.startManual(w)
	case !c.closed:
		ctx, stop := context.WithCancel(context.Background())
		w.stop = stop
		c.running.Go(func() { w.run(ctx, c.client, &c.running) })
	}
}

func (c *Cache) release(w *watch) {
	c.mu.Lock()
	defer c.mu.Unlock()
	w.viewCount--
	if w.viewCount == 0 && c.watches[w.selection] == w {
		delete(c.watches, w.selection)
		w.stop()
	}
}

// Close stops every watch and waits until all have ended.
func (c *Cache) Close() {
	c.mu.Lock()
	c.closed = true
	for _, w := range c.watches {
		w.stop()
	}
	c.mu.Unlock()
	c.running.Wait()
}

// Stat is the state of a watch.
type Stat struct {
	Selection Selection
	// Objects is the number of cached objects, Bytes the size of their JSON.
	Objects, Bytes int
	Synced         bool
	// Lists counts complete lists.
	Lists int
	// Err is nil while the watch works. It is retried.
	Err error
}

// Stats returns the state of all watches, sorted by selection.
func (c *Cache) Stats() []Stat {
	c.mu.Lock()
	stats := make([]Stat, 0, len(c.watches))
	for _, w := range c.watches {
		stats = append(stats, w.stat())
	}
	c.mu.Unlock()
	slices.SortFunc(stats, CompareStats)
	return stats
}

// CompareStats orders the states of watches by selection.
func CompareStats(a, b Stat) int { return cmp.Compare(a.Selection.String(), b.Selection.String()) }

// watch is the watch of a selection, shared by its views.
type watch struct {
	selection Selection
	selector  labels.Selector
	options   Options
	stop      context.CancelFunc
	// onWrite is called with what a view observes; nil unless the watch is without a connection.
	onWrite func(v *View, o *object.Object, deleted bool)

	// reportMu orders reports, whose handlers may read the last error.
	reportMu sync.Mutex
	lastErr  atomic.Pointer[error]

	// viewCount is guarded by the mutex of the Cache.
	viewCount int

	// deliverMu is held while the cache changes and handlers run, for the order of events. It guards views.
	deliverMu sync.Mutex
	views     []*View

	// mu guards only the cache: readers never wait for a handler.
	mu    sync.RWMutex
	cache watchCache
}

func newWatch(selection Selection, options Options) *watch {
	w := &watch{selection: selection, selector: labels.Nothing(), options: options, stop: func() {}, cache: newWatchCache()}
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
	if err != nil { // Those that wait for the first list go on.
		w.deliverMu.Lock()
		for _, v := range w.views {
			v.markReadyOrFailed()
		}
		w.deliverMu.Unlock()
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
	if w.onWrite == nil && v.handle != nil {
		for o := range v.All() {
			v.notify(Event{New: o})
		}
	}
	if w.stat().Synced {
		v.markReady()
	}
	if w.currentErr() != nil {
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
		Selection: w.selection, Objects: len(w.cache.objects), Bytes: w.cache.bytes, Synced: w.cache.lists > 0,
		Lists: w.cache.lists, Err: w.currentErr(),
	}
}

// View is one client's view of a watch.
type View struct {
	watch         *watch
	handle        func(Event)
	release       func()
	ready         chan struct{}
	readyOrFailed chan struct{}
	// These close the channels.
	markReady, markReadyOrFailed func()
	// closed is guarded by watch.deliverMu.
	closed bool
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

// Orphans returns the matching objects without a controller, sorted, in a namespace, or in all if it is empty.
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

// ObserveWrite stores the result of a write, unless the cache has a newer version. It notifies the handlers of other
// views; that of this view only if another client's change came between.
func (v *View) ObserveWrite(o *object.Object) { v.observe(o, false) }

// ObserveDelete removes an object that this client deleted, and notifies the handlers of other views.
func (v *View) ObserveDelete(o *object.Object) { v.observe(o, true) }

func (v *View) observe(o *object.Object, deleted bool) {
	w := v.watch
	if w.onWrite != nil {
		w.onWrite(v, o, deleted)
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
