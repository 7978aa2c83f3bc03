package composite

import (
	"cmp"
	"context"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
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
func New(program Program, d Dependencies) *Controller {
	d.QueueOptions.MaxDelay = maxDelay
	if program.FullObjects {
		d.Writer = d.Writer.WithManagedFields()
	}
	c := &Controller{
		program: program, orphanIndex: selector.New(), deletionGuard: cmp.Or(d.DeletionGuard, guard.New(program.DeletionLimit, d.Now)),
	}
	c.Base = controller.New(c, controller.Options{
		Name: program.Name, Resource: program.Parent, Workers: program.Workers,
		Filtered: program.serverSelector() != "" || program.Fields != "", NamespacesOf: program.NamespacesOf, Account: program.Account,
		Owns: lists.Map(program.Children, func(rule plan.Rule) object.Resource { return rule.Resource }),
	}, d.Dependencies)
	c.deletionGuard.Add(c.Base, c.CountChildren)
	if program.Customizes() {
		options := related.Options{
			Store: d.Store, Scope: program.Scope, Managed: program.FullObjects, Resolve: d.Resolve, Enqueue: c.relatedChanged,
		}
		c.related = related.New(options)
		if program.Previous != nil {
			options.Enqueue = func(queue.Key, *object.Object) {}
			c.comparedRelated = related.New(options)
		}
	}
	c.Router = c.newRouter(d)
	c.watch()
	c.SetWatching()
	return c
}

// Run reconciles parents until the context ends. It returns when the last worker has.
func (c *Controller) Run(ctx context.Context) {
	c.Base.Run(ctx, c.RunItem, func() {}, c.Router.Wait)
}

// RetryNow retries failed parents at once, because the reason for their failures seems to be gone.
func (c *Controller) RetryNow() { c.Queue.RetryNow() }

// RetryWrites is RetryNow: a retry observes, plans and writes anew.
func (c *Controller) RetryWrites() { c.RetryNow() }

// Close ends the watches and drops the queue. Call it after Run has returned.
func (c *Controller) Close() {
	c.Base.Close()
	for _, registry := range [...]*related.Registry{c.related, c.comparedRelated} {
		if registry != nil {
			registry.Close()
		}
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
	return lists.Map(c.related.Watches(), func(w cache.Stat) object.Resource { return w.Selection.Resource })
}

func (c *Controller) newRouter(d Dependencies) *router.Router {
	p := &c.program
	return router.New(c.Base, router.Options{
		Logic:  controller.Logic{Version: p.Version, Sync: p.Sync, Finalize: p.Finalize, Customize: p.Customize},
		Former: p.Previous, Assignment: d.Assignment, Reported: d.Reported, PhaseOf: c.PhaseOf, Now: c.Now,
		ControllerType: p.controllerType(), CustomizeRequest: p.customizeRequest, Related: c.comparedRelated,
		CheckReads: func(ctx context.Context, parent *object.Object, reads []related.Read) error {
			return related.CheckReads(ctx, c.Access, p.Account.UserFor(parent.Namespace()), reads)
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

func (c *Controller) revisionsOf(parent *object.Object) []*object.Object {
	if c.revisions == nil {
		return nil
	}
	return c.revisions.Owned(parent)
}

// NewMemory returns an empty memory.
func (c *Controller) NewMemory() controller.Remembered { return new(memory) }

// Describe adds what the controller knows of a parent.
func (c *Controller) Describe(parent *object.Object, state *record.ObjectState) {
	held, value := c.deletionGuard.HeldChildren(c.ID(controller.KeyOf(parent)))
	state.HeldDeletions, state.AllowDeletions = len(held), value
	c.Router.Describe(parent, state)
	if len(state.Shadow) > 0 { // It may name children.
		state.Locations = slices.Clone(state.Locations)
		for _, rule := range c.program.Children {
			at := record.Location{Kind: object.KindOf(rule.Resource)}
			if rule.Resource.Namespaced {
				at.Namespace = parent.Namespace()
			}
			state.Locations = record.AddLocations(state.Locations, at)
		}
	}
	if state.LastRun.IsZero() {
		state.Children = c.countOwned(parent)
	}
}

// countOwned counts the children of a parent that are not being deleted. Objects that only name the parent as
// their owner do not count: anyone who may create them could raise the limit of the deletion guard.
func (c *Controller) countOwned(parent *object.Object) int {
	manages, n := c.childFilter(parent), 0
	for _, o := range slices.Concat(c.OwnedBy(parent)...) {
		if !o.Deleting() && manages(o) {
			n++
		}
	}
	return n
}

// childFilter tells which of the objects that a parent owns are its children: for a decorator those with its
// mark, else those that the parent's selector matches. The next run releases the others.
func (c *Controller) childFilter(parent *object.Object) func(*object.Object) bool {
	if c.program.isDecorator() {
		return c.program.Mark.On
	}
	children, err := selector.Of(parent, c.program.GenerateSelector)
	return func(o *object.Object) bool { return err == nil && children.Matches(o.Labels()) }
}

// Children returns the children of a parent in the order of the rules, then its revisions.
func (c *Controller) Children(parent *object.Object) []record.Child {
	owned := slices.DeleteFunc(c.Owned.Children(parent), func(child record.Child) bool {
		return c.program.isDecorator() && !c.program.Mark.On(child.Object)
	})
	for _, revision := range c.revisionsOf(parent) {
		owned = append(owned, record.Child{Resource: plan.ControllerRevisions, Object: revision})
	}
	return owned
}

// watch starts the watches, parents first, so that children find their parents.
func (c *Controller) watch() {
	c.WatchObjects(cache.Selection{
		Resource: c.program.Parent, Namespace: c.program.NamespacesOf(c.program.Parent)[0],
		Labels: c.program.serverSelector(), Fields: c.program.Fields, Managed: c.program.FullObjects,
	}, c.parentChanged)
	children := cache.Selection{Managed: c.program.FullObjects}
	if c.program.GenerateSelector {
		children.Labels = plan.UIDLabel // Every child has this label, so the watches need no other objects.
	}
	c.WatchOwned(children, c.childChanged)
	if c.program.Children.Rolling() {
		c.revisions = c.Watch(cache.Selection{
			Resource: plan.ControllerRevisions, Namespace: c.program.RevisionNamespace(), Labels: plan.ParentUIDLabel,
			Managed: c.program.FullObjects,
		}, c.revisionChanged)
	}
}

func (c *Controller) revisionChanged(e cache.Event) {
	c.AwaitWatches()
	if e.Old != nil && e.New != nil && e.Old.Digest() == e.New.Digest() {
		return
	}
	if e.New == nil {
		c.enqueueNameWaiters(e.Old)
	}
	c.enqueueOwner(e.Object())
}

func (c *Controller) parentChanged(e cache.Event) {
	cause := c.causeOf(e)
	if cause == queue.Unspecified {
		return
	}
	if e.New == nil {
		c.orphanIndex.Drop(controller.KeyOf(e.Old))
		c.ownWrites.Take(controller.KeyOf(e.Old))
	} else if !c.program.isDecorator() { // Decorators adopt nothing.
		c.orphanIndex.Set(controller.KeyOf(e.New), e.New, c.program.GenerateSelector)
	}
	c.QueueObject(e, cause)
}

// causeOf returns the cause of a parent's event; Unspecified for none.
func (c *Controller) causeOf(e cache.Event) queue.CauseKind {
	cause := c.CauseOf(e, c.isEdit)
	if cause == queue.StatusChanged && !c.program.SyncOnStatusChange {
		return queue.Unspecified
	}
	return cause
}

// isEdit reports whether another client changed more than the status. For kinds without generations every change counts:
// the intent does not include all their fields.
func (c *Controller) isEdit(e cache.Event) bool {
	intent, last := e.New.IntentDigest(), c.ownWrites.Get(controller.KeyOf(e.New))
	if last.digest == e.New.Digest() || e.New.Generation() > 0 && (intent == e.Old.IntentDigest() || intent == last.intent) {
		return false
	}
	c.ownWrites.Take(controller.KeyOf(e.New))
	return true
}

// childChanged enqueues the parents that own the object, owned it, or may adopt it.
func (c *Controller) childChanged(e cache.Event) {
	c.AwaitWatches()
	if e.New == nil {
		c.noteLostChild(e.Old)
	}
	if e.Old != nil {
		c.enqueueOwner(e.Old)
	}
	if e.New == nil {
		c.enqueueNameWaiters(e.Old)
		return
	}
	owner, owned := e.New.Controller()
	if !owned {
		for _, key := range c.orphanIndex.Matching(e.New, c.program.Parent.Namespaced) {
			c.Queue.Add(key, c.CauseBy(queue.ChildChanged, e.New))
		}
		return
	}
	if e.Old == nil || !e.Old.ControlledBy(owner.UID) || e.Old.Digest() != e.New.Digest() {
		c.enqueueOwner(e.New)
	}
}

// enqueueOwner enqueues the parent that controls a child, unless another controller has made the child for it.
func (c *Controller) enqueueOwner(child *object.Object) {
	if !c.program.isDecorator() || c.program.Mark.On(child) {
		c.QueueOwner(child)
	}
}

// enqueueNameWaiters enqueues the parents that wait for the name of a deleted object.
func (c *Controller) enqueueNameWaiters(gone *object.Object) {
	for key := range c.nameWaiters.Take(gone.Ref().Identity()) {
		c.Queue.Add(key, c.CauseBy(queue.ChildChanged, gone))
	}
}

// noteLostChild remembers a child that disappeared from a watch by label. Standby controllers skip
// it: they have no runs that would look for it.
func (c *Controller) noteLostChild(child *object.Object) {
	if !c.program.GenerateSelector || !c.Running() || child.Deleting() {
		return
	}
	parent := c.OwnerOf(child)
	if parent == nil {
		return
	}
	for _, rule := range c.program.Children {
		if rule.Resource.GroupKind() == child.GroupKind() {
			// The strings are slices of the whole object.
			c.lostChildren.add(controller.KeyOf(parent), lostChild{
				rule.Resource, strings.Clone(child.Namespace()), strings.Clone(child.Name()), strings.Clone(child.UID()),
			})
		}
	}
}

// relatedChanged enqueues a parent when a related object changed. changed is nil when a new watch is synced.
func (c *Controller) relatedChanged(parent queue.Key, changed *object.Object) {
	cause := queue.Cause{Kind: queue.RelatedChanged}
	if changed != nil {
		cause = c.CauseBy(queue.RelatedChanged, changed)
	}
	c.Queue.Add(parent, cause)
}
