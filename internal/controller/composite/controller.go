package composite

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/rollout"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
	"github.com/setpoint-dev/setpoint/internal/selector"
)

// maxDelay bounds the backoff of a failing parent; see controller.EventInterval.
const maxDelay = 35 * time.Second

// Controller runs one program.
type Controller struct {
	*controller.Base

	program     Program
	orphanIndex *selector.Index
	// ownWrites is empty for composites.
	ownWrites     ownWrites
	nameWaiters   nameWaiters
	lostChildren  lostChildren
	recoveryProbe recoveryProbe
	// deletionGuard holds deletions.
	deletionGuard *guard.Guard
	// related is nil without a customize hook.
	related *related.Registry
	// revisions is nil if no child rule is rolling.
	revisions *cache.View
	// comparedRelated has the related objects of the new version while a rollout compares it; nil without a customize hook.
	comparedRelated *related.Registry
	// Router chooses the version of the hooks for each parent.
	Router *router.Router
}

// New returns a controller and starts its watches. Close stops them.
func New(program Program, tools Tools) *Controller {
	tools.Queue.MaxDelay = maxDelay
	if program.FullObjects {
		tools.Writer = tools.Writer.WithManagedFields()
	}
	c := &Controller{program: program, orphanIndex: selector.New(), deletionGuard: tools.DeletionGuard}
	c.Base = controller.New(c, controller.Options{
		Name: program.Name, Resource: program.Parent, Workers: program.Workers,
		Filtered: program.serverSelector() != "" || program.Fields != "", NamespacesOf: program.NamespacesOf, Account: program.Account,
		Owns: lists.Map(program.Children, func(rule plan.Rule) object.Resource { return rule.Resource }),
	}, tools.Tools)
	if c.deletionGuard == nil {
		c.deletionGuard = guard.New(program.DeletionLimit, c.Tools.Now)
	}
	c.deletionGuard.Add(c.Base, c.CountChildren)
	if program.Customizes() {
		options := related.Options{
			Store: tools.Store, Scope: program.Scope, Managed: program.FullObjects, Resolve: tools.Resolve, Enqueue: c.relatedChanged,
		}
		c.related = related.New(options)
		if program.Former != nil {
			options.Enqueue = func(queue.Key, *object.Object) {}
			c.comparedRelated = related.New(options)
		}
	}
	c.Router = c.newRouter(tools)
	c.watch()
	c.SetWatching()
	return c
}

// Run reconciles parents until the context ends. It returns when the last worker has.
func (c *Controller) Run(ctx context.Context) {
	c.Base.Run(ctx, c.reconcile, func() {}, c.Router.Wait)
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
	if c.comparedRelated != nil {
		c.comparedRelated.Close()
	}
}

// Drop drops the state of a parent.
func (c *Controller) Drop(key queue.Key) {
	c.nameWaiters.drop(key)
	c.lostChildren.Take(key)
	c.recoveryProbe.drop(key)
	c.deletionGuard.Drop(c.ID(key))
	c.Router.Drop(key)
	c.orphanIndex.Drop(key)
	if c.related != nil {
		c.related.Drop(key)
	}
}

// Health returns the health of the controller.
func (c *Controller) Health() controller.Health {
	h := c.Base.Health()
	if c.related != nil {
		for _, w := range c.related.Watches() {
			if w.Err != nil {
				h.WatchErrors[w.Selection.String()] = w.Err
			}
		}
	}
	h.Held, h.HeldUnknown = c.deletionGuard.Held(c.Base), c.deletionGuard.HeldUnknown()
	if c.program.serverSelector() == "" && len(c.program.Selections) > 0 {
		h.Parents = c.Memories.Len()
	}
	return h
}

// RelatedKinds returns the kinds of the related objects that the controller watches.
func (c *Controller) RelatedKinds() []object.Resource {
	if c.related == nil {
		return nil
	}
	return lists.Map(c.related.Watches(), func(w related.Watch) object.Resource { return w.Selection.Resource })
}

// newRouter returns what chooses the version of the hooks for each parent.
func (c *Controller) newRouter(tools Tools) *router.Router {
	p := &c.program
	return router.New(c.Base, router.Options{
		Logic:  controller.Logic{Version: p.Version, Sync: p.Sync, Finalize: p.Finalize, Customize: p.Customize},
		Former: p.Former, Assignment: tools.Assignment, Reported: tools.Reported, PhaseOf: c.PhaseOf, Now: c.Tools.Now,
		ControllerType: p.controllerType(), CustomizeRequest: p.customizeRequest, Related: c.comparedRelated,
		CheckReads: func(ctx context.Context, parent *object.Object, reads []related.Read) error {
			return related.CheckReads(ctx, c.Tools.Access, p.Account.UserFor(parent.Namespace()), reads)
		},
		SyncFailure: func(err error) error { return hookFailure("sync", err) },
	})
}

// Rollout returns what a rollout knows of the parents.
func (c *Controller) Rollout() rollout.Observed { return c.Router.Rollout() }

// PhaseOf returns the phase of a parent.
func (c *Controller) PhaseOf(parent *object.Object) controller.Phase {
	return c.program.phaseOf(parent, c.Router.Of(parent).Finalize != nil)
}

// revisionsOf returns the stored revisions of the parent.
func (c *Controller) revisionsOf(parent *object.Object) []*object.Object {
	if c.revisions == nil {
		return nil
	}
	return c.revisions.Owned(parent)
}
