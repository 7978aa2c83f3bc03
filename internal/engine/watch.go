package engine

import (
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// watch starts the watches of the controller: parents first, so that children
// find theirs.
func (c *Controller) watch() {
	parents := c.within(c.program.Parent)
	parents.Labels, parents.Fields = c.program.narrowed(), c.program.Fields
	c.parents = c.tools.Store.Watch(parents, c.parentChanged)
	for _, rule := range c.program.Children {
		selection := c.within(rule.Resource)
		if c.program.GenerateSelector {
			// Every child carries this label, so nobody else's objects need
			// to be seen.
			selection.Labels = plan.UIDLabel
		}
		c.children = append(c.children, kind{rule: rule, view: c.tools.Store.Watch(selection, c.childChanged)})
	}
	c.watchRevisions()
}

// within selects the objects of a kind, those of one namespace if there is no need
// for others: the children of a namespaced parent live beside it.
func (c *Controller) within(resource object.Resource) store.Selection {
	selection := store.Selection{Resource: resource, Managed: c.program.Whole}
	if c.program.Parent.Namespaced && resource.Namespaced {
		selection.Namespace = c.program.Namespace
	}
	return selection
}

// narrowed is the label selector by which the API server may leave out parents:
// none where one that matches no more is to be finalized.
func (p *Program) narrowed() string {
	if len(p.Selections) != 1 || p.Selections[0].Labels == nil || p.Finalize != nil {
		return ""
	}
	return p.Selections[0].Labels.String()
}

// parentChanged queues a parent that appeared or that a user edited.
func (c *Controller) parentChanged(e store.Event) {
	<-c.opened
	if e.New == nil {
		c.parentGone(e.Old)
		return
	}
	if c.program.stanceOn(e.New) == indifferent && (e.Old == nil || c.program.stanceOn(e.Old) == indifferent) {
		return
	}
	if cause := c.reasonToSync(e); cause != queue.Unspecified {
		c.seek(e.New)
		c.queue.Add(keyOf(e.New), queue.Cause{Kind: cause})
	}
}

// seek files a parent under what it seeks. Decorators take in nobody.
func (c *Controller) seek(parent *object.Object) {
	if !c.program.decorates() {
		c.seekers.note(parent, c.program.GenerateSelector)
	}
}

func (c *Controller) parentGone(old *object.Object) {
	key := keyOf(old)
	c.recordDeletion(old)
	c.seekers.drop(key)
	c.decorations.drop(key)
	c.queue.Forget(key)
	// The worker that holds the key, if any, ends its run; the next to open
	// it finds no parent and drops the memory.
	c.queue.Add(key, queue.Cause{Kind: queue.ParentChanged})
}

// recordDeletion puts a deletion into the reconcile history. Where the API server leaves
// objects out by a selector, one that does not match it any more looks like a deleted one:
// there no deletion is recorded.
func (c *Controller) recordDeletion(old *object.Object) {
	if c.tools.Unrecorded || c.program.narrowed() != "" || c.program.Fields != "" || c.program.stanceOn(old) == indifferent {
		return
	}
	c.tools.Observer.Deleted(trace.Deletion(c.program.Name, c.program.Parent, old, c.tools.Now()))
}

// reasonToSync is the cause a parent's event is, or Unspecified for none.
func (c *Controller) reasonToSync(e store.Event) queue.CauseKind {
	switch {
	case e.Old == nil && !c.parents.Synced():
		return queue.Start
	case e.Old == nil || e.Old.UID() != e.New.UID():
		return queue.ParentChanged
	case requested(e.Old, e.New):
		return queue.UserAsked
	case c.program.stanceOn(e.Old) != c.program.stanceOn(e.New):
		return queue.ParentChanged
	case e.Old.Digest() == e.New.Digest():
		return queue.Unspecified
	case c.edited(e):
		return queue.ParentChanged
	case c.program.StatusWakes:
		return queue.StatusChanged
	}
	return queue.Unspecified
}

// edited says that another client has changed of a parent what a user edits. A kind
// without generations does not tell an edit from a status.
func (c *Controller) edited(e store.Event) bool {
	if e.Old.Intent() == e.New.Intent() && e.New.Generation() > 0 || c.decorations.made(keyOf(e.New), e.New) {
		return false
	}
	c.decorations.drop(keyOf(e.New))
	return true
}

// requested says that a user asks for a sync with this change.
func requested(before, now *object.Object) bool {
	at := plan.Annotation(now, setpoint.AnnotationReconcileAt)
	return at != "" && at != plan.Annotation(before, setpoint.AnnotationReconcileAt)
}

// childChanged queues the parent that an object belongs to, belonged to, or may
// be taken in by.
func (c *Controller) childChanged(e store.Event) {
	<-c.opened
	if e.New == nil {
		c.lostSight(e.Old)
	}
	if e.Old != nil {
		c.wakeOwner(e.Old)
	}
	if e.New == nil {
		c.wakeWaiting(e.Old)
		return
	}
	if _, owned := e.New.Controller(); !owned {
		c.wakeSeekers(e.New)
		return
	}
	if e.Old == nil || !sameOwner(e.Old, e.New) || e.Old.Digest() != e.New.Digest() {
		c.wakeOwner(e.New)
	}
}

func sameOwner(a, b *object.Object) bool {
	owner, owned := a.Controller()
	return owned && b.ControlledBy(owner.UID)
}

// wakeOwner queues the parent that controls a child.
func (c *Controller) wakeOwner(child *object.Object) {
	if parent := c.ownerOf(child); parent != nil {
		c.queue.Add(keyOf(parent), causeOf(child))
	}
}

// ownerOf is the parent that controls a child, nil if it is none of ours.
func (c *Controller) ownerOf(child *object.Object) *object.Object {
	owner, owned := child.Controller()
	if !owned || owner.Kind != c.program.Parent.Kind || object.GroupOf(owner.APIVersion) != c.program.Parent.Group {
		return nil
	}
	if c.program.decorates() && !c.program.Mark.On(child) {
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

// wakeSeekers queues the parents whose selector matches an object without owner.
func (c *Controller) wakeSeekers(orphan *object.Object) {
	for _, key := range c.seekers.of(orphan, c.program.Parent.Namespaced) {
		c.queue.Add(key, causeOf(orphan))
	}
}

// wakeWaiting queues the parents that wait for the name of an object that is gone.
func (c *Controller) wakeWaiting(gone *object.Object) {
	for key := range c.wanted.take(nameOf(gone)) {
		c.queue.Add(key, causeOf(gone))
	}
}

func causeOf(child *object.Object) queue.Cause {
	return queue.Cause{Kind: queue.ChildChanged, Detail: child.Kind(), Object: keyOf(child)}
}
