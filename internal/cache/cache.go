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
	"log/slog"
	"slices"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/client-go/rest"

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
	// OnHealth is called when a watch fails, when its error changes and, with nil, when it
	// works again. It must be quick.
	OnHealth func(Selection, error)
	// MinBackoff is the first delay before a failed watch is retried. It doubles up to
	// MaxBackoff. Defaults: 250ms and 30s.
	MinBackoff, MaxBackoff time.Duration
	// GracePeriod is how long the API server may throttle (429) or be disconnected before a
	// watch counts as failing; 5s if zero.
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
	// manual is set for a cache without connections.
	manual *Manual

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
	selection.Labels = canonical(selection.Labels)
	v := &View{handle: handle, ready: make(chan struct{}), readyOrFailed: make(chan struct{})}
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
	case c.manual != nil:
		w.addView(v)
	case !c.closed:
		c.running.Go(func() { w.addView(v) })
	}
	return v
}

// canonical makes equal selectors equal strings. The API server reports invalid ones.
func canonical(selector string) string {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return selector
	}
	return parsed.String()
}

// start starts a watch. The caller holds the lock.
func (c *Cache) start(w *watch) {
	if c.manual != nil {
		c.manual.start(w)
		return
	}
	if c.closed {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	c.running.Go(func() { w.run(ctx, c.client, &c.running) })
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
