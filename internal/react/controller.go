package react

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// Controller runs one program.
type Controller struct {
	program  Program
	tools    Tools
	log      *slog.Logger
	queue    *queue.Queue
	memories *memories
	news     *news
	// objects are the watches of the handled objects, one for each namespace.
	objects kind
	// owned are the watches of the owned ones.
	owned []kind
	// opened is closed once objects and owned are set: handlers of events run on
	// other goroutines, maybe before that.
	opened chan struct{}
	// began is when Run did, last. What was queued before waited for nobody.
	began   time.Time
	daemons sync.WaitGroup
	// pruned says that the API server did not keep the record in a status.
	pruned atomic.Bool
	// working says that Run does.
	working atomic.Bool
}

// kind is one kind of owned objects and the watches of them.
type kind struct {
	resource   object.Resource
	namespaces []string
	views      []*store.View
}

// New makes a controller and starts its watches. Close stops them.
func New(program Program, tools Tools) *Controller {
	program.Workers = cmp.Or(program.Workers, 32)
	if tools.Now == nil {
		tools.Now = time.Now
	}
	c := &Controller{
		program:  program,
		tools:    tools,
		log:      tools.Log.With("controller", program.Name),
		queue:    queue.New(queue.Options{}),
		memories: newMemories(),
		news:     newNews(),
		opened:   make(chan struct{}),
	}
	c.guard()
	c.watch()
	close(c.opened)
	return c
}

// Run works until the context ends. It returns when the last run, and the last
// daemon, has.
func (c *Controller) Run(ctx context.Context) {
	if !c.wait(ctx) {
		return
	}
	c.began = c.tools.Now()
	c.begin()
	c.log.Info("controller started", "objects", c.countObjects(), "workers", c.program.Workers)
	c.working.Store(true)
	defer c.working.Store(false)
	var workers sync.WaitGroup
	for range c.program.Workers {
		workers.Go(func() { c.queue.Work(ctx, c.reconcile) })
	}
	workers.Wait()
	c.news.pause()
	c.daemons.Wait()
	c.log.Info("controller stopped")
}

// begin forgets what was known in a former term, in which others may have
// followed, and looks at every object.
func (c *Controller) begin() {
	c.memories.clear()
	c.news.resume()
	for _, view := range c.objects.views {
		for o := range view.All() {
			if c.program.stanceOn(o) != indifferent {
				c.hear(store.Event{New: o})
				c.queue.Add(keyOf(o), queue.Cause{Kind: queue.Start})
			}
		}
	}
}

// wait waits until all watches are synced.
func (c *Controller) wait(ctx context.Context) bool {
	for _, w := range c.watches() {
		select {
		case <-w.view.Ready():
		case <-ctx.Done():
			return false
		}
	}
	return true
}

// SyncAll looks at every object for a cause. What handlers gave up is tried again
// where the handlers are others now.
func (c *Controller) SyncAll(cause queue.CauseKind) {
	for _, view := range c.objects.views {
		for o := range view.All() {
			if c.program.stanceOn(o) != indifferent {
				c.queue.Add(keyOf(o), queue.Cause{Kind: cause})
			}
		}
	}
}

// RetryNow retries what failed at once, calls of handlers too: the way to reach them is
// another one.
func (c *Controller) RetryNow() { c.requeueFailing(queue.HookChanged) }

// RetryWrites retries writes that failed at once: the API server is back. It says nothing
// about the handlers, which wait out their backoffs.
func (c *Controller) RetryWrites() { c.requeueFailing(queue.Retrying) }

func (c *Controller) requeueFailing(cause queue.CauseKind) {
	for _, key := range c.memories.failingKeys() {
		c.queue.Add(key, queue.Cause{Kind: cause})
	}
}

// Close ends the controller's watches and forgets what is queued. Run should
// have returned.
func (c *Controller) Close() {
	c.queue.Close()
	for _, w := range c.watches() {
		w.view.Close()
	}
}

// watched is one watch of the controller.
type watched struct {
	resource  object.Resource
	namespace string
	view      *store.View
}

// brings says whether the watch is one that brings an object.
func (w *watched) brings(resource object.Resource, o *object.Object) bool {
	return w.resource == resource && (w.namespace == "" || w.namespace == o.Namespace())
}

// watches are all watches of the controller, those of the handled objects first.
func (c *Controller) watches() []watched {
	var all []watched
	for _, kind := range append([]kind{c.objects}, c.owned...) {
		for i, view := range kind.views {
			all = append(all, watched{kind.resource, kind.namespaces[i], view})
		}
	}
	return all
}

func (c *Controller) synced() bool {
	for _, w := range c.watches() {
		if !w.view.Synced() {
			return false
		}
	}
	return true
}

func (c *Controller) countObjects() int {
	n := 0
	for _, view := range c.objects.views {
		n += view.Len()
	}
	return n
}

// get is the handled object of a key, nil if there is none.
func (c *Controller) get(key queue.Key) *object.Object {
	for _, view := range c.objects.views {
		if o := view.Get(key.Namespace, key.Name); o != nil {
			return o
		}
	}
	return nil
}

// ownedBy are the owned objects that an object controls, a list for each kind.
func (c *Controller) ownedBy(o *object.Object) [][]*object.Object {
	all := make([][]*object.Object, len(c.owned))
	for i, kind := range c.owned {
		for _, view := range kind.views {
			all[i] = append(all[i], view.Owned(o.UID())...)
		}
	}
	return all
}

// countOwned is how many objects one controls.
func (c *Controller) countOwned(uid string) int {
	n := 0
	for _, kind := range c.owned {
		for _, view := range kind.views {
			n += view.CountOwned(uid)
		}
	}
	return n
}

// wrote has a write of ours known to the watches of its kind.
func (c *Controller) wrote(resource object.Resource, stored *object.Object) {
	for _, w := range c.watches() {
		if w.brings(resource, stored) {
			w.view.Wrote(stored)
		}
	}
}

// removed has a deletion of ours known to the watches of its kind.
func (c *Controller) removed(resource object.Resource, gone *object.Object) {
	for _, w := range c.watches() {
		if w.brings(resource, gone) {
			w.view.Removed(gone)
		}
	}
}

func keyOf(o *object.Object) queue.Key {
	return queue.Key{Namespace: o.Namespace(), Name: o.Name()}
}
