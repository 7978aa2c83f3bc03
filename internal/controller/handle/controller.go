package handle

import (
	"cmp"
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Controller runs one program.
type Controller struct {
	program     Program
	tools       Tools
	log         *slog.Logger
	queue       *queue.Queue
	memories    *memories
	eventBuffer *eventBuffer
	// objects are the watches of the handled objects, one for each namespace.
	objects kind
	// owned are the watches of the owned ones.
	owned []kind
	// watching is closed once objects and owned are set: handlers of events run on
	// other goroutines, maybe before that.
	watching chan struct{}
	// started is when Run did, last. What was queued before waited for nobody.
	started time.Time
	daemons sync.WaitGroup
	// pruned says that the API server did not keep the record in a status.
	pruned atomic.Bool
	// running says that Run does.
	running atomic.Bool
}

// kind is one kind of owned objects and the watches of them.
type kind struct {
	resource   object.Resource
	namespaces []string
	views      []*cache.View
}

// New makes a controller and starts its watches. Close stops them.
func New(program Program, tools Tools) *Controller {
	program.Workers = cmp.Or(program.Workers, 32)
	if tools.Now == nil {
		tools.Now = time.Now
	}
	c := &Controller{
		program:     program,
		tools:       tools,
		log:         tools.Log.With("controller", program.Name),
		queue:       queue.New(queue.Options{}),
		memories:    newMemories(),
		eventBuffer: newEventBuffer(),
		watching:    make(chan struct{}),
	}
	c.recoverConditions()
	c.watch()
	close(c.watching)
	return c
}

// Run works until the context ends. It returns when the last run, and the last
// daemon, has.
func (c *Controller) Run(ctx context.Context) {
	if !c.waitForSync(ctx) {
		return
	}
	c.started = c.tools.Now()
	c.reset()
	c.log.Info("controller started", "objects", c.countObjects(), "workers", c.program.Workers)
	c.running.Store(true)
	defer c.running.Store(false)
	var workers sync.WaitGroup
	for range c.program.Workers {
		workers.Go(func() { c.queue.Work(ctx, c.reconcile) })
	}
	workers.Wait()
	c.eventBuffer.pause()
	c.daemons.Wait()
	c.log.Info("controller stopped")
}

// reset forgets what was known in a former term, in which others may have
// followed, and looks at every object.
func (c *Controller) reset() {
	c.memories.clear()
	c.eventBuffer.resume()
	for _, view := range c.objects.views {
		for o := range view.All() {
			if c.program.phaseOf(o) != phaseIgnored {
				c.bufferEvent(cache.Event{New: o})
				c.queue.Add(keyOf(o), queue.Cause{Kind: queue.Start})
			}
		}
	}
}

// waitForSync waits until all watches are synced.
func (c *Controller) waitForSync(ctx context.Context) bool {
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
			if c.program.phaseOf(o) != phaseIgnored {
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

// kindWatch is one watch of the controller.
type kindWatch struct {
	resource  object.Resource
	namespace string
	view      *cache.View
}

// covers says whether the watch is one that brings an object.
func (w *kindWatch) covers(resource object.Resource, o *object.Object) bool {
	return w.resource == resource && (w.namespace == "" || w.namespace == o.Namespace())
}

// watches are all watches of the controller, those of the handled objects first.
func (c *Controller) watches() []kindWatch {
	var all []kindWatch
	for _, kind := range append([]kind{c.objects}, c.owned...) {
		for i, view := range kind.views {
			all = append(all, kindWatch{kind.resource, kind.namespaces[i], view})
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
		if w.covers(resource, stored) {
			w.view.ObserveWrite(stored)
		}
	}
}

// removed has a deletion of ours known to the watches of its kind.
func (c *Controller) removed(resource object.Resource, gone *object.Object) {
	for _, w := range c.watches() {
		if w.covers(resource, gone) {
			w.view.ObserveDelete(gone)
		}
	}
}

func keyOf(o *object.Object) queue.Key {
	return queue.Key{Namespace: o.Namespace(), Name: o.Name()}
}
