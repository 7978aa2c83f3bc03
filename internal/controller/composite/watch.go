package composite

import (
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
	c.parents = c.tools.Store.Watch(parents, c.parentChanged)
	c.AddObjects(parents, c.parents)
	for _, rule := range c.program.Children {
		kind := childKind{rule: rule}
		if !rule.Resource.Unserved {
			kind.watches = c.watchChildren(rule.Resource)
		}
		c.children = append(c.children, kind)
	}
	c.watchRevisions()
}

// watchChildren starts the watches of a kind of children.
func (c *Controller) watchChildren(resource object.Resource) (all childWatches) {
	for _, namespace := range c.program.NamespacesOf(resource) {
		selection := cache.Selection{Resource: resource, Namespace: namespace, Managed: c.program.FullObjects}
		if c.program.GenerateSelector {
			// Every child has this label, so the watch needs no other objects.
			selection.Labels = plan.UIDLabel
		}
		view := c.tools.Store.Watch(selection, c.childChanged)
		c.AddWatch(selection, view)
		all = append(all, controller.Watch{Resource: resource, Namespace: namespace, View: view})
	}
	return all
}

// NamespacesOf returns the namespaces in which the program watches and writes a kind, "" for all.
// The children of a namespaced parent are in its namespace.
func (p *Program) NamespacesOf(resource object.Resource) []string {
	switch {
	case !resource.Namespaced:
		return []string{""}
	case p.Parent.Namespaced:
		return []string{p.Namespace}
	case len(p.Namespaces) == 0:
		return []string{""}
	}
	return p.Namespaces
}

// RevisionNamespace returns the namespace in which the program watches and writes revisions, "" for
// all. Those of cluster-scoped parents may be in an earlier namespace of Setpoint, unless the
// program is limited to namespaces.
func (p *Program) RevisionNamespace() string {
	if !p.Parent.Namespaced && len(p.Namespaces) > 0 {
		return p.Revisions.Namespace
	}
	return p.Namespace
}

// serverSelector returns a label selector for the API server. It is empty if parents that stop
// matching have to be finalized.
func (p *Program) serverSelector() string {
	if len(p.Selections) != 1 || p.Selections[0].Labels == nil || p.Finalizes() {
		return ""
	}
	return p.Selections[0].Labels.String()
}

// parentChanged enqueues a parent that was created, edited or deleted.
func (c *Controller) parentChanged(e cache.Event) {
	cause := c.causeOf(e)
	if cause == queue.Unspecified {
		return
	}
	if e.New == nil {
		c.orphanIndex.drop(controller.KeyOf(e.Old))
		c.ownWrites.Take(controller.KeyOf(e.Old))
	} else {
		c.indexSelector(e.New)
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

// indexSelector indexes the selector of a parent. Decorators adopt nothing.
func (c *Controller) indexSelector(parent *object.Object) {
	if !c.program.isDecorator() {
		c.orphanIndex.set(parent, c.program.GenerateSelector)
	}
}

// isEdit reports whether another client changed more than the status. For kinds without generations
// every change counts.
func (c *Controller) isEdit(e cache.Event) bool {
	if e.Old.IntentDigest() == e.New.IntentDigest() && e.New.Generation() > 0 || c.isOwnWrite(e.New) {
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

// enqueueAdopters enqueues the parents whose selectors match an orphan.
func (c *Controller) enqueueAdopters(orphan *object.Object) {
	for _, key := range c.orphanIndex.matching(orphan, c.program.Parent.Namespaced) {
		c.Queue.Add(key, c.ChildCause(orphan))
	}
}

// enqueueNameWaiters enqueues the parents that wait for the name of a deleted object.
func (c *Controller) enqueueNameWaiters(gone *object.Object) {
	for key := range c.nameWaiters.Take(childNameOf(gone)) {
		c.Queue.Add(key, c.ChildCause(gone))
	}
}
