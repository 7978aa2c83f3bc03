package store

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

	// users counts the views; it is guarded by the store's lock.
	users int

	// order is held while the cache changes and while the handlers are told, so
	// that they hear everything in the order in which it happened. It guards
	// views.
	order sync.Mutex
	views []*View

	synced atomic.Bool
	lists  atomic.Int64

	// mu guards the cache alone: reading never waits for a handler.
	mu    sync.RWMutex
	cache cache
}

func newWatch(selection Selection, options Options) *watch {
	w := &watch{
		selection: selection,
		selector:  labels.Nothing(),
		options:   options,
		stop:      func() {},
		cache:     newCache(),
	}
	w.cache.blind = selection.Fields != ""
	if selector, err := labels.Parse(selection.Labels); err == nil {
		w.selector = selector
	}
	w.health.changed = func(err error) {
		w.failed(err)
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
	src := &source{client: client, selection: w.selection, health: &w.health, running: running, log: w.options.Log, patience: w.options.Patience, silence: w.options.Silence}
	src.link = &link{first: w.options.MinBackoff, longest: w.options.MaxBackoff, patience: w.options.Patience, report: src.lost}
	defer src.link.close()
	waits := reflectorClock{halt: ctx, link: src.link}
	reflector := reflectors.NewReflectorWithOptions(src, nil, sink{w}, reflectors.ReflectorOptions{
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

// change applies a change to the cache and tells the handlers what came of it.
func (w *watch) change(how func(*cache) []notice) {
	w.order.Lock()
	defer w.order.Unlock()
	w.mu.Lock()
	notices := how(&w.cache)
	w.mu.Unlock()
	for _, n := range notices {
		w.tell(n)
	}
}

func (w *watch) tell(n notice) {
	for _, v := range w.views {
		if v.handle != nil && n.isFor(v) {
			v.handle(n.Event)
		}
	}
}

// replace takes over a complete list, after which the views are ready.
func (w *watch) replace(list []*object.Object, version uint64) {
	w.lists.Add(1)
	w.change(func(c *cache) []notice { return c.replace(list, version) })
	w.order.Lock()
	defer w.order.Unlock()
	w.synced.Store(true)
	for _, v := range w.views {
		v.markReady()
	}
}

// join tells a new view what is there already, and from then on what changes.
func (w *watch) join(v *View) {
	w.order.Lock()
	defer w.order.Unlock()
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
		v.markSettled()
	}
}

// failed tells the views that wait for the first list that it may be long.
func (w *watch) failed(err error) {
	if err == nil {
		return
	}
	w.order.Lock()
	defer w.order.Unlock()
	for _, v := range w.views {
		v.markSettled()
	}
}

// markReady is called with the order held.
func (v *View) markReady() {
	if !v.told {
		v.told = true
		close(v.ready)
		v.markSettled()
	}
}

// markSettled is called with the order held.
func (v *View) markSettled() {
	if !v.wasSettled {
		v.wasSettled = true
		close(v.settled)
	}
}

func (w *watch) leave(v *View) {
	w.order.Lock()
	defer w.order.Unlock()
	v.closed = true
	w.views = slices.DeleteFunc(w.views, func(other *View) bool { return other == v })
	w.mu.Lock()
	defer w.mu.Unlock()
	w.cache.disown(v)
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
		Views:     w.users,
		Objects:   len(w.cache.objects),
		Bytes:     w.cache.bytes,
		Synced:    w.synced.Load(),
		Lists:     int(w.lists.Load()),
		Err:       w.health.current(),
	}
}
