package composite

import (
	"context"
	"math/rand/v2"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// maxDelay bounds the backoff of a failing parent; see controller.EventInterval.
const maxDelay = 35 * time.Second

// Controller runs one program.
type Controller struct {
	*controller.Base

	program     Program
	tools       Tools
	orphanIndex *orphanIndex
	// ownWrites is empty for composites.
	ownWrites     controller.SharedMap[queue.Key, ownWrite]
	nameWaiters   controller.SharedMap[childName, nameWaiters]
	lostChildren  controller.SharedMap[queue.Key, []lostChild]
	recoveryProbe recoveryProbe
	// deletionGuard holds deletions.
	deletionGuard *DeletionGuard
	// related is nil without a customize hook.
	related  *related.Registry
	parents  *cache.View
	children []childKind
	// revisions is nil if no child rule is rolling.
	revisions *cache.View
	// shadowRelated has the related objects of the new version while it is compared; nil without a customize hook.
	shadowRelated *related.Registry
	shadowCalls   sync.WaitGroup
}

// childKind is a kind of child and its watches; none if the kind is not served any more.
type childKind struct {
	rule    plan.Rule
	watches childWatches
}

// New returns a controller and starts its watches. Close stops them.
func New(program Program, tools Tools) *Controller {
	if tools.Now == nil {
		tools.Now = time.Now
	}
	if tools.Queue.Random == nil {
		tools.Queue.Random = rand.Float64
	}
	tools.Queue.MaxDelay = maxDelay
	if program.FullObjects {
		tools.Writer = tools.Writer.WithManagedFields()
	}
	c := &Controller{
		program:     program,
		tools:       tools,
		orphanIndex: newOrphanIndex(),
	}
	c.Base = controller.New(c, controller.Options{
		Name: program.Name, Resource: program.Parent, Workers: program.Workers, Queue: tools.Queue,
		Filtered: program.serverSelector() != "" || program.Fields != "", Observer: tools.Observer, Unrecorded: tools.Unrecorded,
		Log: tools.Log, Tracer: tools.Tracer, Now: tools.Now,
	})
	if c.deletionGuard = tools.DeletionGuard; c.deletionGuard == nil {
		c.deletionGuard = NewDeletionGuard(program.DeletionLimit, tools.Now)
	}
	c.deletionGuard.addController(c)
	if c.tools.Versions == nil {
		c.tools.Versions = NewVersions(nil)
	}
	if program.Customizes() {
		options := related.Options{
			Store: tools.Store, Scope: program.Scope, Managed: program.FullObjects, Resolve: tools.Resolve, Enqueue: c.relatedChanged,
		}
		c.related = related.New(options)
		if program.Former != nil {
			options.Enqueue = func(queue.Key, *object.Object) {}
			c.shadowRelated = related.New(options)
		}
	}
	if c.tools.LogicVersions == nil {
		c.tools.LogicVersions = NewLogicVersions("", "")
	}
	c.watch()
	c.SetWatching()
	return c
}

// Run reconciles parents until the context ends. It returns when the last worker has.
func (c *Controller) Run(ctx context.Context) {
	c.Base.Run(ctx, c.reconcile, func() {}, c.shadowCalls.Wait)
}

// RunItem reconciles one parent in the caller's goroutine, without workers. It must not run at the same
// time as Run.
func (c *Controller) RunItem(ctx context.Context, item queue.Item) queue.Outcome {
	return c.reconcile(ctx, item)
}

// RetryNow retries failed parents at once, because the reason for their failures seems to be gone.
func (c *Controller) RetryNow() { c.Queue.RetryNow() }

// RetryWrites is RetryNow: a retry observes, plans and writes anew.
func (c *Controller) RetryWrites() { c.RetryNow() }

// Close ends the watches and drops the queue. Call it after Run has returned.
func (c *Controller) Close() {
	c.Base.Close()
	if c.related != nil {
		c.related.Close()
	}
	if c.shadowRelated != nil {
		c.shadowRelated.Close()
	}
}

// scheduleResync plans the next periodic resync, with jitter so that parents spread out.
func (c *Controller) scheduleResync(key queue.Key) {
	if period := c.program.Resync; period > 0 {
		spread := time.Duration(c.tools.Queue.Random() * 0.1 * float64(period))
		c.Queue.AddAfter(key, queue.Cause{Kind: queue.Resync}, period-spread)
	}
}
