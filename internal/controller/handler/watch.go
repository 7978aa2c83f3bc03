package handler

import (
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// watch starts the watches: handled objects first, so that owned and related objects find them.
func (c *Controller) watch() {
	for _, selection := range c.program.Selections() {
		c.AddObjects(selection, c.tools.Store.Watch(selection, c.objectChanged))
	}
	for _, resource := range c.program.Owns {
		if resource.Unserved {
			continue
		}
		for _, namespace := range c.program.NamespacesOf(resource) {
			selection := cache.Selection{Resource: resource, Namespace: namespace}
			view := c.tools.Store.Watch(selection, c.ownedChanged)
			c.AddWatch(selection, view)
			c.owned = append(c.owned, controller.Watch{Resource: resource, Namespace: namespace, View: view})
		}
	}
	c.watchRelated()
}

// Selections returns the watches of the handled kind. Controllers with equal selections share
// a watch.
func (p *Program) Selections() []cache.Selection {
	var all []cache.Selection
	for _, namespace := range p.NamespacesOf(p.Resource) {
		all = append(all, cache.Selection{Resource: p.Resource, Namespace: namespace, Labels: p.serverSelector(), Fields: p.Fields})
	}
	return all
}

// NamespacesOf returns the namespaces in which the program watches and writes a kind, "" for
// all.
func (p *Program) NamespacesOf(resource object.Resource) []string {
	if len(p.Namespaces) == 0 || !resource.Namespaced {
		return []string{""}
	}
	return p.Namespaces
}

// objectChanged queues an object that another client created, changed or deleted.
func (c *Controller) objectChanged(e cache.Event) {
	c.feed.changed(e) // Before a worker can call a handler for it.
	if cause := c.CauseOf(e, isEdit); cause != queue.Unspecified {
		if e.Old != nil && e.New != nil && e.Old.UID() != e.New.UID() {
			// A list shows another object of the same name: the former was deleted meanwhile.
			c.bufferEvent(observed(cache.Event{Old: e.Old}))
			e.Old = nil
		}
		c.bufferEvent(observed(e))
		c.QueueObject(e, cause)
	}
}

// isEdit reports whether more than the status changed. For kinds without generations every
// change counts.
func isEdit(e cache.Event) bool {
	return e.Old.IntentDigest() != e.New.IntentDigest() || e.New.Generation() == 0 || e.Old.Deleting() != e.New.Deleting()
}

// ownedChanged queues the present or former owner of an owned object, if a handler needs the
// change.
func (c *Controller) ownedChanged(e cache.Event) {
	c.AwaitWatches()
	if !c.program.handles(hook.ReasonDrift) {
		return
	}
	if e.Old != nil && e.New != nil && unchanged(e.Old, e.New) {
		return
	}
	for _, o := range []*object.Object{e.Old, e.New} {
		if o != nil {
			c.QueueOwner(o)
		}
	}
}

// unchanged reports whether nothing differs that would be drift. If the server counts
// generations, that leaves out changes of the status.
func unchanged(old, now *object.Object) bool {
	if old.UID() != now.UID() || now.Generation() == 0 {
		return old.Digest() == now.Digest()
	}
	return old.IntentDigest() == now.IntentDigest()
}

// handles reports whether a handler is called for a reason.
func (p *Program) handles(reason hook.Reason) bool {
	return slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.handles(reason) })
}
