package compose

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// startRun starts a run. It returns false if the parent is gone or the controller does not manage
// it.
func (c *Controller) startRun(item queue.Item) (*run, bool) {
	parent := c.parents.Get(item.Key.Namespace, item.Key.Name)
	if parent == nil || c.program.phaseOf(parent) == phaseIgnored {
		c.dropParent(item.Key)
		return nil, false
	}
	return c.newRun(item, parent), true
}

func (c *Controller) newRun(item queue.Item, parent *object.Object) *run {
	memory, _ := c.memories.Get(item.Key, parent.UID())
	r := &run{
		Controller: c,
		item:       item,
		memory:     memory,
		phase:      c.program.phaseOf(parent),
		stored:     parent,
		parent:     parent,
	}
	r.planner = plan.Planner{
		Parent:           parent,
		Namespaced:       c.program.Parent.Namespaced,
		Rules:            c.program.Children,
		GenerateSelector: c.program.GenerateSelector,
		LastApplied:      c.program.LastApplied,
		OmitValues:       c.program.OmitValues,
		Manager:          c.program.Manager,
		Mark:             c.program.Mark,
		IgnoreNamespaces: c.program.IgnoreNamespaces,
	}
	return r
}

// dropParent drops all state of a parent.
func (c *Controller) dropParent(key queue.Key) {
	c.memories.Drop(key)
	c.nameWaiters.drop(key)
	c.lostChildren.take(key)
	c.recoveryProbe.drop(key)
	c.deletionGuard.drop(guardedParent{c, key})
	c.orphanIndex.drop(key)
	if c.related != nil {
		c.related.Drop(key)
	}
}

// stillExists reports whether the parent still exists with the same UID.
func (r *run) stillExists() bool {
	now := r.parents.Get(r.item.Key.Namespace, r.item.Key.Name)
	return now != nil && now.UID() == r.stored.UID()
}
