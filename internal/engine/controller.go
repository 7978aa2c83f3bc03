package engine

import (
	"cmp"
	"context"
	"log/slog"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// maxDelay bounds the backoff of a failing parent; see tellAgain.
const maxDelay = 35 * time.Second

// Controller runs one program.
type Controller struct {
	program  Program
	tools    Tools
	log      *slog.Logger
	queue    *queue.Queue
	memories *memories
	seekers  *seekers
	// decorations are empty for a composite.
	decorations decorations
	wanted      *wanted
	strays      *strays
	scout       scout
	// deletions is what holds deletions.
	deletions *Deletions
	// related is nil without a customize hook.
	related  *related.Registry
	parents  *store.View
	children []kind
	// revisions is nil where no child has to wait for its turn.
	revisions *store.View
	// opened is closed once parents and children are set: handlers run on
	// other goroutines, maybe before that.
	opened chan struct{}
	// began is when Run did, last. What was queued before waited for nobody.
	began time.Time
	// working says that Run does.
	working atomic.Bool
}

// kind is one kind of child and the watch of its objects.
type kind struct {
	rule plan.Rule
	view *store.View
}

// New makes a controller and starts its watches. Close stops them.
func New(program Program, tools Tools) *Controller {
	program.Workers = cmp.Or(program.Workers, 32)
	if tools.Now == nil {
		tools.Now = time.Now
	}
	if program.Whole {
		tools.Writer = tools.Writer.Whole()
	}
	c := &Controller{
		program:  program,
		tools:    tools,
		log:      tools.Log.With("controller", program.Name),
		queue:    queue.New(queue.Options{MaxDelay: maxDelay}),
		memories: newMemories(),
		seekers:  newSeekers(),
		wanted:   newWanted(),
		strays:   newStrays(),
		opened:   make(chan struct{}),
	}
	if c.deletions = tools.Deletions; c.deletions == nil {
		c.deletions = NewDeletions(program.Guard, tools.Now)
	}
	c.deletions.join(c)
	if program.Customize != nil {
		c.related = related.New(related.Options{
			Store: tools.Store, Scope: program.Scope, Managed: program.Whole, Resolve: tools.Resolve, Wake: c.relatedChanged,
		})
	}
	c.watch()
	close(c.opened)
	return c
}

// Run works until the context ends. It returns when the last run has.
func (c *Controller) Run(ctx context.Context) {
	if !c.wait(ctx) {
		return
	}
	c.began = c.tools.Now()
	c.log.Info("controller started", "parents", c.parents.Len(), "workers", c.program.Workers)
	c.working.Store(true)
	defer c.working.Store(false)
	var workers sync.WaitGroup
	for range c.program.Workers {
		workers.Go(func() { c.queue.Work(ctx, c.reconcile) })
	}
	workers.Wait()
	c.log.Info("controller stopped")
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

// SyncAll has every parent synced for a cause.
func (c *Controller) SyncAll(cause queue.CauseKind) {
	for parent := range c.parents.All() {
		if c.program.stanceOn(parent) == indifferent {
			continue
		}
		c.queue.Add(keyOf(parent), queue.Cause{Kind: cause})
	}
}

// RetryNow has the parents that failed tried again at once: what they failed for
// seems to be over.
func (c *Controller) RetryNow() { c.queue.RetryNow() }

// RetryWrites is RetryNow: a parent that failed is observed, planned and written anew.
func (c *Controller) RetryWrites() { c.RetryNow() }

// Close ends the controller's watches and forgets what is queued. Run should
// have returned.
func (c *Controller) Close() {
	c.queue.Close()
	for _, w := range c.watches() {
		w.view.Close()
	}
	if c.related != nil {
		c.related.Close()
	}
}

// watched is one watch of the controller.
type watched struct {
	resource object.Resource
	view     *store.View
}

// watches are all watches of the controller, the parents' first.
func (c *Controller) watches() []watched {
	all := []watched{{c.program.Parent, c.parents}}
	for _, child := range c.children {
		all = append(all, watched{child.rule.Resource, child.view})
	}
	if c.revisions != nil {
		all = append(all, watched{plan.ControllerRevisions, c.revisions})
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

// plan the next regular look, spread so that parents which started together do
// not stay together.
func (c *Controller) scheduleResync(key queue.Key) {
	if period := c.program.Resync; period > 0 {
		spread := time.Duration(rand.Float64() * 0.1 * float64(period))
		c.queue.AddAfter(key, queue.Cause{Kind: queue.Resync}, period-spread)
	}
}

func keyOf(o *object.Object) queue.Key {
	return queue.Key{Namespace: o.Namespace(), Name: o.Name()}
}
