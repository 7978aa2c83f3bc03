package composite

import (
	"strings"

	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// watch starts the watches, parents first, so that children find their parents.
func (c *Controller) watch() {
	parents := cache.Selection{Resource: c.program.Parent, Namespace: c.program.NamespacesOf(c.program.Parent)[0],
		Managed: c.program.FullObjects}
	parents.Labels, parents.Fields = c.program.serverSelector(), c.program.Fields
	c.AddObjects(parents, c.Tools.Store.Watch(parents, c.parentChanged))
	children := cache.Selection{Managed: c.program.FullObjects}
	if c.program.GenerateSelector {
		children.Labels = plan.UIDLabel // Every child has this label, so the watches need no other objects.
	}
	c.WatchOwned(children, c.childChanged)
	c.watchRevisions()
}

// watchRevisions starts the watch of revisions if a child rule is rolling.
func (c *Controller) watchRevisions() {
	if !c.program.Children.Rolling() {
		return
	}
	selection := cache.Selection{
		Resource: plan.ControllerRevisions, Namespace: c.program.RevisionNamespace(), Labels: plan.ParentUIDLabel,
		Managed: c.program.FullObjects,
	}
	c.revisions = c.Tools.Store.Watch(selection, c.revisionChanged)
	c.AddWatch(selection, c.revisions)
}

// revisionChanged enqueues the parent of a changed revision.
func (c *Controller) revisionChanged(e cache.Event) {
	c.AwaitWatches()
	if e.Old != nil && e.New != nil && e.Old.Digest() == e.New.Digest() {
		return
	}
	if e.New == nil {
		c.enqueueNameWaiters(e.Old)
		c.enqueueOwner(e.Old)
		return
	}
	c.enqueueOwner(e.New)
}

// parentChanged enqueues a parent that was created, edited or deleted.
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

// isEdit reports whether another client changed more than the status. For kinds without generations
// every change counts.
func (c *Controller) isEdit(e cache.Event) bool {
	if e.Old.IntentDigest() == e.New.IntentDigest() && e.New.Generation() > 0 || c.ownWrites.isLast(e.New) {
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
	if _, owned := e.New.Controller(); !owned {
		for _, key := range c.orphanIndex.Matching(e.New, c.program.Parent.Namespaced) {
			c.Queue.Add(key, c.CauseBy(queue.ChildChanged, e.New))
		}
		return
	}
	if e.Old == nil || !sameOwner(e.Old, e.New) || e.Old.Digest() != e.New.Digest() {
		c.enqueueOwner(e.New)
	}
}

func sameOwner(a, b *object.Object) bool {
	owner, owned := a.Controller()
	return owned && b.ControlledBy(owner.UID)
}

func (c *Controller) enqueueOwner(child *object.Object) {
	if c.ownerOf(child) != nil {
		c.QueueOwner(child)
	}
}

// ownerOf returns the parent that controls a child; nil if it is not managed here.
func (c *Controller) ownerOf(child *object.Object) *object.Object {
	if c.program.isDecorator() && !c.program.Mark.On(child) {
		return nil
	}
	return c.OwnerOf(child)
}

// enqueueNameWaiters enqueues the parents that wait for the name of a deleted object.
func (c *Controller) enqueueNameWaiters(gone *object.Object) {
	for key := range c.nameWaiters.Take(childNameOf(gone)) {
		c.Queue.Add(key, c.CauseBy(queue.ChildChanged, gone))
	}
}

// noteLostChild remembers a child that disappeared from a watch by label. Standby controllers skip
// it: they have no runs that would look for it.
func (c *Controller) noteLostChild(child *object.Object) {
	if !c.program.GenerateSelector || !c.Running() || child.Deleting() {
		return
	}
	parent := c.ownerOf(child)
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

// relatedChanged enqueues a parent when a related object changed. changed is nil when a new watch
// is synced.
func (c *Controller) relatedChanged(parent queue.Key, changed *object.Object) {
	cause := queue.Cause{Kind: queue.RelatedChanged}
	if changed != nil {
		cause = c.CauseBy(queue.RelatedChanged, changed)
	}
	c.Queue.Add(parent, cause)
}
