// Package cache keeps what the API server holds of chosen kinds at hand: watches
// that are shared, reference-counted, compact and indexed.
//
// Here live the watch of one selection of objects, the cache it feeds with its
// rules of age, the indexes by owner and by label, and the reading of lists and
// watch streams straight into object.Object. What must not: any knowledge of
// parents, children or hooks, and any write to the API server.
//
// The engine looks things up here and is told what changed; apply hands in what
// its writes returned; the host reads the figures.
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

// Selection says which objects a watch brings. It is the identity of a shared
// watch.
type Selection struct {
	Resource object.Resource
	// Namespace is empty for all of them.
	Namespace string
	// Name is that of the only object wanted; empty for all of them. Who may
	// read nothing but that object may have it watched.
	Name string
	// Labels is a label selector that the API server applies; empty selects all.
	Labels string
	// Fields is a field selector that the API server applies; empty selects all.
	// It cannot be applied here: what a write put out of the selection is there, and
	// what it put in is not, until the API server says so.
	Fields string
	// Metadata asks for nothing but the metadata of objects, for kinds whose
	// objects are large and whose contents nobody looks at.
	Metadata bool
	// Managed keeps metadata.managedFields of objects, which are dropped otherwise.
	Managed bool
}

// String is "pods.v1 in default with app=web", for messages.
func (s Selection) String() string {
	text := s.Resource.String()
	if s.Namespace != "" {
		text += " in " + s.Namespace
	}
	if s.Name != "" {
		text += " named " + s.Name
	}
	if s.Labels != "" {
		text += " with " + s.Labels
	}
	if s.Fields != "" {
		text += " where " + s.Fields
	}
	if s.Metadata {
		text = "metadata of " + text
	}
	if s.Managed {
		text += " with managedFields"
	}
	return text
}

// Event is one change of the cache.
type Event struct {
	// Old is nil when the object appeared, New when it has gone.
	Old, New *object.Object
}

// Options of a Store. The zero value works.
type Options struct {
	// Log is slog.Default when nil.
	Log *slog.Logger
	// OnHealth is told when a watch stops working, with the error, when the error
	// becomes another one, and, with nil, when it works again. It must be quick.
	OnHealth func(Selection, error)
	// MinBackoff is the first delay before a failed watch is tried again; it
	// doubles up to MaxBackoff. Defaults: 250ms and 30s.
	MinBackoff, MaxBackoff time.Duration
	// GracePeriod is how long the API server may ask to be left alone (429) before
	// a watch counts as not working; 5s if zero.
	GracePeriod time.Duration
	// IdleTimeout is how long nothing may be heard of a watch until it is given up and
	// opened anew, from where it was: a connection may be dead without a word. It
	// is noticed after one to two of these, and somewhat more, by chance. API
	// servers send a bookmark about every minute, which counts. 90s if zero.
	IdleTimeout time.Duration
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
	o.MaxBackoff = cmp.Or(o.MaxBackoff, 30*time.Second)
	return o
}

// Cache shares watches among all who want the same selection.
type Cache struct {
	client  rest.Interface
	options Options
	running sync.WaitGroup

	mu      sync.Mutex
	watches map[Selection]*watch
	closed  bool
}

// New returns a store that watches through the client. Nothing is asked of the
// API server before the first Watch.
func New(client rest.Interface, options Options) *Cache {
	return &Cache{client: client, options: options.withDefaults(), watches: map[Selection]*watch{}}
}

// Watch opens a view of the selection. The first view starts the watch, the
// last one closed stops it.
//
// The handler, which may be nil, is told every change in order, and first every
// object that is there already, with no gap and no duplicate between the two. It
// never runs within Watch and never twice at once; it must be quick, and must
// not call Wrote, Removed or Close.
func (s *Cache) Watch(selection Selection, handle func(Event)) *View {
	selection.Labels = canonical(selection.Labels)
	v := &View{handle: handle, ready: make(chan struct{}), readyOrFailed: make(chan struct{})}
	s.mu.Lock()
	defer s.mu.Unlock()
	w := s.watches[selection]
	if w == nil {
		w = newWatch(selection, s.options)
		s.watches[selection] = w
		s.start(w)
	}
	w.viewCount++
	v.watch, v.release = w, sync.OnceFunc(func() { s.release(w) })
	if !s.closed {
		s.running.Go(func() { w.addView(v) })
	}
	return v
}

// canonical makes equal selectors equal strings. One that cannot be parsed
// stays, for the API server to say what is wrong with it.
func canonical(selector string) string {
	parsed, err := labels.Parse(selector)
	if err != nil {
		return selector
	}
	return parsed.String()
}

// start starts a watch. The caller holds the lock.
func (s *Cache) start(w *watch) {
	if s.closed {
		return
	}
	ctx, stop := context.WithCancel(context.Background())
	w.stop = stop
	s.running.Go(func() { w.run(ctx, s.client, &s.running) })
}

func (s *Cache) release(w *watch) {
	s.mu.Lock()
	defer s.mu.Unlock()
	w.viewCount--
	if w.viewCount == 0 && s.watches[w.selection] == w {
		delete(s.watches, w.selection)
		w.stop()
	}
}

// Close stops every watch and waits until all have ended.
func (s *Cache) Close() {
	s.mu.Lock()
	s.closed = true
	for _, w := range s.watches {
		w.stop()
	}
	s.mu.Unlock()
	s.running.Wait()
}

// Stat is the state of one watch.
type Stat struct {
	Selection Selection
	// Views counts those who share the watch.
	Views int
	// Objects is how many there are, Bytes what their JSON takes.
	Objects, Bytes int
	Synced         bool
	// Lists is how often all objects were listed.
	Lists int
	// Err is nil while the watch works.
	Err error
}

// Stats lists all watches, sorted by selection.
func (s *Cache) Stats() []Stat {
	s.mu.Lock()
	stats := make([]Stat, 0, len(s.watches))
	for _, w := range s.watches {
		stats = append(stats, w.stat())
	}
	s.mu.Unlock()
	slices.SortFunc(stats, func(a, b Stat) int { return cmp.Compare(a.Selection.String(), b.Selection.String()) })
	return stats
}
