package compose

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// maxDelay bounds the backoff of a failing parent; see eventInterval.
const maxDelay = 35 * time.Second

// Controller runs one program.
type Controller struct {
	program     Program
	tools       Tools
	log         *slog.Logger
	queue       *queue.Queue
	memories    *memories
	orphanIndex *orphanIndex
	// ownWrites is empty for composites.
	ownWrites     ownWrites
	nameWaiters   *nameWaiters
	lostChildren  *lostChildren
	recoveryProbe recoveryProbe
	deletionGuard *DeletionGuard
	// related is nil without a customize hook.
	related  *related.Registry
	parents  *cache.View
	children []childKind
	// revisions is nil if no child rule is rolling.
	revisions *cache.View
	// watchesSet is closed once parents and children are set. Event handlers run on other
	// goroutines and may start earlier.
	watchesSet chan struct{}
	// startedAt is when Run started. Time in the queue before that does not count.
	startedAt time.Time
	// active reports whether Run runs.
	active atomic.Bool
}

// childKind is a kind of child and its watch.
type childKind struct {
	rule plan.Rule
	view *cache.View
}

// New returns a controller and starts its watches. Close stops them.
func New(program Program, tools Tools) *Controller {
	program.Workers = cmp.Or(program.Workers, 32)
	if tools.Now == nil {
		tools.Now = time.Now
	}
	if program.FullObjects {
		tools.Writer = tools.Writer.WithManagedFields()
	}
	c := &Controller{
		program:      program,
		tools:        tools,
		log:          tools.Log.With("controller", program.Name),
		queue:        queue.New(queue.Options{MaxDelay: maxDelay}),
		memories:     newMemories(),
		orphanIndex:  newOrphanIndex(),
		nameWaiters:  newNameWaiters(),
		lostChildren: newLostChildren(),
		watchesSet:   make(chan struct{}),
	}
	if c.deletionGuard = tools.DeletionGuard; c.deletionGuard == nil {
		c.deletionGuard = NewDeletionGuard(program.DeletionLimit, tools.Now)
	}
	c.deletionGuard.addController(c)
	if program.Customize != nil {
		c.related = related.New(related.Options{
			Store: tools.Store, Scope: program.Scope, Managed: program.FullObjects, Resolve: tools.Resolve, Enqueue: c.relatedChanged,
		})
	}
	c.watch()
	close(c.watchesSet)
	return c
}

// Run reconciles until the context ends. It returns when the last run has ended.
func (c *Controller) Run(ctx context.Context) {
	if !c.waitForSync(ctx) {
		return
	}
	c.startedAt = c.tools.Now()
	c.log.Info("controller started", "parents", c.parents.Len(), "workers", c.program.Workers)
	c.active.Store(true)
	defer c.active.Store(false)
	var workers sync.WaitGroup
	for range c.program.Workers {
		workers.Go(func() { c.queue.Work(ctx, c.reconcile) })
	}
	workers.Wait()
	c.log.Info("controller stopped")
}

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

// SyncAll enqueues every parent.
func (c *Controller) SyncAll(cause queue.CauseKind) {
	for parent := range c.parents.All() {
		if c.program.phaseOf(parent) == phaseIgnored {
			continue
		}
		c.queue.Add(keyOf(parent), queue.Cause{Kind: cause})
	}
}

// RetryNow retries failed parents at once, because the reason for their failures seems to be gone.
func (c *Controller) RetryNow() { c.queue.RetryNow() }

// RetryWrites is RetryNow: a retry observes, plans and writes anew.
func (c *Controller) RetryWrites() { c.RetryNow() }

// Close ends the watches and drops the queue. Call it after Run has returned.
func (c *Controller) Close() {
	c.queue.Close()
	for _, w := range c.watches() {
		w.view.Close()
	}
	if c.related != nil {
		c.related.Close()
	}
}

type watchedResource struct {
	resource object.Resource
	view     *cache.View
}

// watches returns all watches of the controller, that of the parents first.
func (c *Controller) watches() []watchedResource {
	all := []watchedResource{{c.program.Parent, c.parents}}
	for _, child := range c.children {
		all = append(all, watchedResource{child.rule.Resource, child.view})
	}
	if c.revisions != nil {
		all = append(all, watchedResource{plan.ControllerRevisions, c.revisions})
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

// scheduleResync plans the next periodic resync, with jitter so that parents spread out.
func (c *Controller) scheduleResync(key queue.Key) {
	if period := c.program.Resync; period > 0 {
		spread := time.Duration(rand.Float64() * 0.1 * float64(period))
		c.queue.AddAfter(key, queue.Cause{Kind: queue.Resync}, period-spread)
	}
}

func keyOf(o *object.Object) queue.Key {
	return queue.Key{Namespace: o.Namespace(), Name: o.Name()}
}
