package compose

import (
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// watch starts the watches, parents first, so that children find their parents.
func (c *Controller) watch() {
	parents := c.selectionFor(c.program.Parent)
	parents.Labels, parents.Fields = c.program.serverSelector(), c.program.Fields
	c.parents = c.tools.Store.Watch(parents, c.parentChanged)
	for _, rule := range c.program.Children {
		selection := c.selectionFor(rule.Resource)
		if c.program.GenerateSelector {
			// Every child has this label, so the watch needs no other objects.
			selection.Labels = plan.UIDLabel
		}
		c.children = append(c.children, childKind{rule: rule, view: c.tools.Store.Watch(selection, c.childChanged)})
	}
	c.watchRevisions()
}

// selectionFor selects the objects of a kind. The children of namespaced parents are in their
// namespaces, so a limit on the namespace applies to them too.
func (c *Controller) selectionFor(resource object.Resource) cache.Selection {
	selection := cache.Selection{Resource: resource, Managed: c.program.FullObjects}
	if c.program.Parent.Namespaced && resource.Namespaced {
		selection.Namespace = c.program.Namespace
	}
	return selection
}

// serverSelector returns a label selector for the API server. It is empty if parents that stop
// matching have to be finalized.
func (p *Program) serverSelector() string {
	if len(p.Selections) != 1 || p.Selections[0].Labels == nil || p.Finalize != nil {
		return ""
	}
	return p.Selections[0].Labels.String()
}

// parentChanged enqueues a parent that was created or edited.
func (c *Controller) parentChanged(e cache.Event) {
	<-c.watchesSet
	if e.New == nil {
		c.parentDeleted(e.Old)
		return
	}
	if c.program.phaseOf(e.New) == phaseIgnored && (e.Old == nil || c.program.phaseOf(e.Old) == phaseIgnored) {
		return
	}
	if cause := c.syncCause(e); cause != queue.Unspecified {
		c.indexSelector(e.New)
		c.queue.Add(keyOf(e.New), queue.Cause{Kind: cause})
	}
}

// indexSelector indexes the selector of a parent. Decorators adopt nothing.
func (c *Controller) indexSelector(parent *object.Object) {
	if !c.program.isDecorator() {
		c.orphanIndex.set(parent, c.program.GenerateSelector)
	}
}

func (c *Controller) parentDeleted(old *object.Object) {
	key := keyOf(old)
	c.recordDeletion(old)
	c.orphanIndex.drop(key)
	c.ownWrites.drop(key)
	c.queue.Forget(key)
	// The next run finds no parent and drops the memory.
	c.queue.Add(key, queue.Cause{Kind: queue.ParentChanged})
}

// recordDeletion records a deletion. It skips controllers with selectors on the server, where an
// object that stops matching looks deleted.
func (c *Controller) recordDeletion(old *object.Object) {
	if c.tools.Unrecorded || c.program.serverSelector() != "" || c.program.Fields != "" || c.program.phaseOf(old) == phaseIgnored {
		return
	}
	c.tools.Observer.Deleted(record.Deletion(c.program.Name, c.program.Parent, old, c.tools.Now()))
}

// syncCause returns the cause of a parent's event; Unspecified for none.
func (c *Controller) syncCause(e cache.Event) queue.CauseKind {
	switch {
	case e.Old == nil && !c.parents.Synced():
		return queue.Start
	case e.Old == nil || e.Old.UID() != e.New.UID():
		return queue.ParentChanged
	case reconcileRequested(e.Old, e.New):
		return queue.ReconcileRequested
	case c.program.phaseOf(e.Old) != c.program.phaseOf(e.New):
		return queue.ParentChanged
	case e.Old.Digest() == e.New.Digest():
		return queue.Unspecified
	case c.isEdit(e):
		return queue.ParentChanged
	case c.program.SyncOnStatusChange:
		return queue.StatusChanged
	}
	return queue.Unspecified
}

// isEdit reports whether another client changed more than the status. For kinds without generations
// every change counts.
func (c *Controller) isEdit(e cache.Event) bool {
	if e.Old.IntentDigest() == e.New.IntentDigest() && e.New.Generation() > 0 || c.ownWrites.contains(keyOf(e.New), e.New) {
		return false
	}
	c.ownWrites.drop(keyOf(e.New))
	return true
}

// reconcileRequested reports whether a user requests a reconcile with this change.
func reconcileRequested(before, now *object.Object) bool {
	at := plan.Annotation(now, setpoint.AnnotationReconcileAt)
	return at != "" && at != plan.Annotation(before, setpoint.AnnotationReconcileAt)
}

// childChanged enqueues the parents that own the object, owned it, or may adopt it.
func (c *Controller) childChanged(e cache.Event) {
	<-c.watchesSet
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
		c.enqueueAdopters(e.New)
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
	if parent := c.ownerOf(child); parent != nil {
		c.queue.Add(keyOf(parent), childCause(child))
	}
}

// ownerOf returns the parent that controls a child; nil if it is not managed here.
func (c *Controller) ownerOf(child *object.Object) *object.Object {
	owner, owned := child.Controller()
	if !owned || owner.Kind != c.program.Parent.Kind || object.GroupOf(owner.APIVersion) != c.program.Parent.Group {
		return nil
	}
	if c.program.isDecorator() && !c.program.Mark.On(child) {
		return nil
	}
	namespace := ""
	if c.program.Parent.Namespaced {
		namespace = child.Namespace()
	}
	parent := c.parents.Get(namespace, owner.Name)
	if parent == nil || parent.UID() != owner.UID {
		return nil
	}
	return parent
}

// enqueueAdopters enqueues the parents whose selectors match an orphan.
func (c *Controller) enqueueAdopters(orphan *object.Object) {
	for _, key := range c.orphanIndex.matching(orphan, c.program.Parent.Namespaced) {
		c.queue.Add(key, childCause(orphan))
	}
}

// enqueueNameWaiters enqueues the parents that wait for the name of a deleted object.
func (c *Controller) enqueueNameWaiters(gone *object.Object) {
	for key := range c.nameWaiters.take(childNameOf(gone)) {
		c.queue.Add(key, childCause(gone))
	}
}

func childCause(child *object.Object) queue.Cause {
	return queue.Cause{Kind: queue.ChildChanged, Detail: child.Kind(), Object: keyOf(child)}
}
