package handle

import (
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// watch starts the watches of the controller: handled objects first, so that
// owned ones find theirs.
func (c *Controller) watch() {
	c.objects = c.watchKind(c.program.Resource, c.program.Selections(), c.objectChanged)
	for _, resource := range c.program.Owns {
		var selections []cache.Selection
		for _, namespace := range c.program.namespaces(resource) {
			selections = append(selections, cache.Selection{Resource: resource, Namespace: namespace})
		}
		c.owned = append(c.owned, c.watchKind(resource, selections, c.ownedChanged))
	}
}

// watchKind starts the watches of a kind.
func (c *Controller) watchKind(resource object.Resource, selections []cache.Selection, changed func(cache.Event)) kind {
	k := kind{resource: resource}
	for _, selection := range selections {
		k.namespaces = append(k.namespaces, selection.Namespace)
		k.views = append(k.views, c.tools.Store.Watch(selection, changed))
	}
	return k
}

// Selections are what is watched of the handled kind. Who watches the same shares
// the watch.
func (p *Program) Selections() []cache.Selection {
	var all []cache.Selection
	for _, namespace := range p.namespaces(p.Resource) {
		all = append(all, cache.Selection{Resource: p.Resource, Namespace: namespace, Labels: p.serverSelector(), Fields: p.Fields})
	}
	return all
}

// namespaces are those to watch a kind in, "" for all: what a namespaced object
// owns lives beside it.
func (p *Program) namespaces(resource object.Resource) []string {
	if len(p.Namespaces) == 0 || !p.Resource.Namespaced || !resource.Namespaced {
		return []string{""}
	}
	return p.Namespaces
}

// objectChanged queues an object that appeared or that somebody edited.
func (c *Controller) objectChanged(e cache.Event) {
	<-c.watching
	now := e.New
	if now == nil {
		c.bufferEvent(e)
		c.recordDeletion(e.Old)
		c.queue.Forget(keyOf(e.Old))
		c.queue.Add(keyOf(e.Old), queue.Cause{Kind: queue.ParentChanged})
		return
	}
	if c.program.phaseOf(now) == phaseIgnored && (e.Old == nil || c.program.phaseOf(e.Old) == phaseIgnored) {
		return
	}
	if cause := c.causeOf(e); cause != queue.Unspecified {
		c.bufferEvent(e)
		c.queue.Add(keyOf(now), queue.Cause{Kind: cause})
	}
}

// recordDeletion puts a deletion into the reconcile history. Where the API server leaves
// objects out by a selector, one that does not match it any more looks like a deleted one:
// there no deletion is recorded.
func (c *Controller) recordDeletion(old *object.Object) {
	if c.tools.Unrecorded || c.program.serverSelector() != "" || c.program.Fields != "" || c.program.phaseOf(old) == phaseIgnored {
		return
	}
	c.tools.Observer.Deleted(record.Deletion(c.program.Name, c.program.Resource, old, c.tools.Now()))
}

// causeOf is the cause that an object's event is, or Unspecified for none.
func (c *Controller) causeOf(e cache.Event) queue.CauseKind {
	switch {
	case e.Old == nil && !c.synced():
		return queue.Start
	case e.Old == nil || e.Old.UID() != e.New.UID():
		return queue.ParentChanged
	case reconcileRequested(e.Old, e.New):
		return queue.ReconcileRequested
	case e.Old.IntentDigest() != e.New.IntentDigest():
		return queue.ParentChanged
	case e.Old.Digest() == e.New.Digest():
		return queue.Unspecified
	case e.New.Generation() == 0 || e.Old.Deleting() != e.New.Deleting():
		return queue.ParentChanged
	}
	return queue.StatusChanged
}

// reconcileRequested says that a user asks for a look with this change.
func reconcileRequested(before, now *object.Object) bool {
	at := plan.Annotation(now, setpoint.AnnotationReconcileAt)
	return at != "" && at != plan.Annotation(before, setpoint.AnnotationReconcileAt)
}

// ownedChanged queues the object that an owned one belongs to, or belonged to,
// where somebody minds.
func (c *Controller) ownedChanged(e cache.Event) {
	<-c.watching
	if !c.program.handles(hook.ReasonDrift) {
		return
	}
	if e.Old != nil && e.New != nil && unchanged(e.Old, e.New) {
		return
	}
	for _, o := range []*object.Object{e.Old, e.New} {
		if o != nil {
			c.enqueueOwner(o)
		}
	}
}

// unchanged says that nothing differs that would be drift. Where the server
// counts generations, a change of status is told by that.
func unchanged(old, now *object.Object) bool {
	if old.UID() != now.UID() || now.Generation() == 0 {
		return old.Digest() == now.Digest()
	}
	return old.IntentDigest() == now.IntentDigest()
}

// enqueueOwner queues the object that controls an owned one.
func (c *Controller) enqueueOwner(owned *object.Object) {
	owner, is := owned.Controller()
	if !is || owner.Kind != c.program.Resource.Kind || object.GroupOf(owner.APIVersion) != c.program.Resource.Group {
		return
	}
	key := queue.Key{Name: owner.Name}
	if c.program.Resource.Namespaced {
		key.Namespace = owned.Namespace()
	}
	if o := c.get(key); o != nil && o.UID() == owner.UID {
		cause := queue.Cause{Kind: queue.ChildChanged, Detail: owned.Kind(), Object: keyOf(owned)}
		c.queue.Add(keyOf(o), cause)
	}
}

// handles says whether a handler is told for a reason.
func (p *Program) handles(reason hook.Reason) bool {
	for i := range p.Handlers {
		if p.Handlers[i].handles(reason) {
			return true
		}
	}
	return false
}
