package engine

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// open is the first step: it finds the parent and what is remembered of it.
// It returns false when there is no such parent any more, or none of ours.
func (c *Controller) open(item queue.Item) (*run, bool) {
	parent := c.parents.Get(item.Key.Namespace, item.Key.Name)
	if parent == nil || c.program.stanceOn(parent) == indifferent {
		c.forget(item.Key)
		return nil, false
	}
	return c.runFor(item, parent), true
}

// runFor makes the run of a parent.
func (c *Controller) runFor(item queue.Item, parent *object.Object) *run {
	r := &run{
		Controller: c,
		item:       item,
		memory:     c.memories.of(item.Key, parent.UID()),
		stance:     c.program.stanceOn(parent),
		stored:     parent,
		parent:     parent,
	}
	r.family = plan.Family{
		Parent:           parent,
		Namespaced:       c.program.Parent.Namespaced,
		Rules:            c.program.Children,
		Generated:        c.program.GenerateSelector,
		LastApplied:      c.program.LastApplied,
		Outline:          c.program.Outline,
		Manager:          c.program.Manager,
		Mark:             c.program.Mark,
		IgnoreNamespaces: c.program.IgnoreNamespaces,
	}
	return r
}

// forget drops all that is remembered of a parent.
func (c *Controller) forget(key queue.Key) {
	c.memories.drop(key)
	c.wanted.drop(key)
	c.strays.take(key)
	c.scout.drop(key)
	c.deletions.drop(claimant{c, key})
	c.seekers.drop(key)
	if c.related != nil {
		c.related.Drop(key)
	}
}

// still says whether the parent is still there, and still the same object.
func (r *run) still() bool {
	now := r.parents.Get(r.item.Key.Namespace, r.item.Key.Name)
	return now != nil && now.UID() == r.stored.UID()
}
