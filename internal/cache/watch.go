package cache

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/rest"
	reflectors "k8s.io/client-go/tools/cache"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// watch is the one watch of a selection, shared by its views.
type watch struct {
	selection Selection
	selector  labels.Selector
	options   Options
	stop      context.CancelFunc
	health    health

	// viewCount counts the views; it is guarded by the store's lock.
	viewCount int

	// deliverMu is held while the cache changes and while the handlers are told, so
	// that they hear everything in the order in which it happened. It guards
	// views.
	deliverMu sync.Mutex
	views     []*View

	synced atomic.Bool
	lists  atomic.Int64

	// mu guards the cache alone: reading never waits for a handler.
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
	w.health.onChange = func(err error) {
		w.markFailed(err)
		logHealth(options.Log, selection, err)
		options.OnHealth(selection, err)
	}
	return w
}

func logHealth(log *slog.Logger, selection Selection, err error) {
	if err == nil {
		log.Info("watch works again", "selection", selection.String())
		return
	}
	log.Warn("watch does not work", "selection", selection.String(), "error", err)
}

// run watches until the context ends.
func (w *watch) run(ctx context.Context, client rest.Interface, running *sync.WaitGroup) {
	src := &listWatcher{client: client, selection: w.selection, health: &w.health, running: running, log: w.options.Log, gracePeriod: w.options.GracePeriod, idleTimeout: w.options.IdleTimeout}
	src.connection = &connection{minDelay: w.options.MinBackoff, maxDelay: w.options.MaxBackoff, gracePeriod: w.options.GracePeriod, report: src.reportLost}
	defer src.connection.close()
	waits := reflectorClock{ctx: ctx, connection: src.connection}
	reflector := reflectors.NewReflectorWithOptions(src, nil, reflectorStore{w}, reflectors.ReflectorOptions{
		Name:            w.selection.String(),
		TypeDescription: w.selection.Resource.String(),
		Clock:           waits,
		Backoff:         &wait.Backoff{Duration: 1}, // The clock knows how long to wait.
	})
	// RunWithContext would do the same with a delay that only grows: a reflector forgets
	// failures after two minutes without any, whatever worked in between.
	for ctx.Err() == nil {
		if err := reflector.ListAndWatchWithContext(ctx); err != nil {
			w.options.Log.Debug("watch failed", "selection", w.selection.String(), "error", err)
		}
		<-waits.After(0)
	}
}

// apply applies a change to the cache and tells the handlers what came of it.
func (w *watch) apply(how func(*watchCache) []notification) {
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	w.mu.Lock()
	notifications := how(&w.cache)
	w.mu.Unlock()
	for _, n := range notifications {
		w.notify(n)
	}
}

func (w *watch) notify(n notification) {
	for _, v := range w.views {
		if v.handle != nil && n.isFor(v) {
			v.handle(n.Event)
		}
	}
}

// replace takes over a complete list, after which the views are ready.
func (w *watch) replace(list []*object.Object, version uint64) {
	w.lists.Add(1)
	w.apply(func(c *watchCache) []notification { return c.replace(list, version) })
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	w.synced.Store(true)
	for _, v := range w.views {
		v.markReady()
	}
}

// addView tells a new view what is there already, and from then on what changes.
func (w *watch) addView(v *View) {
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	if v.closed {
		return
	}
	w.views = append(w.views, v)
	if v.handle != nil {
		for _, o := range v.snapshot() {
			v.handle(Event{New: o})
		}
	}
	if w.synced.Load() {
		v.markReady()
	}
	if w.health.current() != nil {
		v.markReadyOrFailed()
	}
}

// markFailed tells the views that wait for the first list that it may be long.
func (w *watch) markFailed(err error) {
	if err == nil {
		return
	}
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	for _, v := range w.views {
		v.markReadyOrFailed()
	}
}

// markReady is called with the order held.
func (v *View) markReady() {
	if !v.readyClosed {
		v.readyClosed = true
		close(v.ready)
		v.markReadyOrFailed()
	}
}

// markReadyOrFailed is called with the order held.
func (v *View) markReadyOrFailed() {
	if !v.readyOrFailedClosed {
		v.readyOrFailedClosed = true
		close(v.readyOrFailed)
	}
}

func (w *watch) removeView(v *View) {
	w.deliverMu.Lock()
	defer w.deliverMu.Unlock()
	v.closed = true
	w.views = slices.DeleteFunc(w.views, func(other *View) bool { return other == v })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cache.dropWritesOf(v)
}

// selects says whether the watch is to bring the object.
func (w *watch) selects(o *object.Object) bool {
	here := w.selection.Namespace == "" || w.selection.Namespace == o.Namespace()
	meant := w.selection.Name == "" || w.selection.Name == o.Name()
	return here && meant && w.selector.Matches(o.Labels())
}

// stat is called with the store's lock held, which a handler may be waiting for:
// it must not wait for the order.
func (w *watch) stat() Stat {
	w.mu.RLock()
	defer w.mu.RUnlock()
	return Stat{
		Selection: w.selection,
		Views:     w.viewCount,
		Objects:   len(w.cache.objects),
		Bytes:     w.cache.bytes,
		Synced:    w.synced.Load(),
		Lists:     int(w.lists.Load()),
		Err:       w.health.current(),
	}
}
