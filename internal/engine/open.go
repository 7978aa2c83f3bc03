package engine

import (
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// open is the first step: it finds the parent and what is remembered of it.
// It returns false when there is no such parent any more.
func (c *Controller) open(item queue.Item) (*run, bool) {
	parent := c.parents.Get(item.Key.Namespace, item.Key.Name)
	if parent == nil {
		c.memories.drop(item.Key)
		c.wanted.drop(item.Key)
		return nil, false
	}
	r := &run{
		Controller: c,
		item:       item,
		memory:     c.memories.of(item.Key, parent.UID()),
		stored:     parent,
		parent:     parent,
	}
	r.family = plan.Family{
		Parent:      parent,
		Namespaced:  c.program.Parent.Namespaced,
		Rules:       c.program.Children,
		Generated:   c.program.GenerateSelector,
		LastApplied: c.program.LastApplied,
		Outline:     c.program.Outline,
	}
	return r, true
}

// still says whether the parent is still there, and still the same object.
func (r *run) still() bool {
	now := r.parents.Get(r.item.Key.Namespace, r.item.Key.Name)
	return now != nil && now.UID() == r.stored.UID()
}
