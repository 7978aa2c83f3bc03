package engine

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Cares says how each parent is doing, in no order.
func (c *Controller) Cares() []trace.Care {
	all := make([]trace.Care, 0, c.parents.Len())
	for parent := range c.parents.All() {
		if care, ours := c.care(parent); ours {
			all = append(all, care)
		}
	}
	return all
}

// Care says how one parent is doing; false if it is none.
func (c *Controller) Care(key queue.Key) (trace.Care, bool) {
	parent := c.parents.Get(key.Namespace, key.Name)
	if parent == nil {
		return trace.Care{}, false
	}
	return c.care(parent)
}

func (c *Controller) care(parent *object.Object) (trace.Care, bool) {
	stance := c.program.stanceOn(parent)
	if stance == indifferent {
		return trace.Care{}, false
	}
	key := keyOf(parent)
	care := c.memories.care(key, parent.UID())
	care.Object, care.Paused = parent, stance == pausing
	held, value := c.deletions.heldOf(claimant{c, key})
	care.Held, care.AllowDeletions = len(held), value
	pending := c.queue.Pending(key)
	// Who stands by has everything queued, and runs nothing.
	care.Idle = !c.working.Load()
	care.Waiting = !care.Idle && (pending.Queued || pending.Held || care.Ran.IsZero() && !care.Paused)
	care.Next = pending.Next
	if care.Ran.IsZero() {
		care.Children = c.countOwned(parent)
	}
	return care, true
}

// care is what is remembered of a parent.
func (m *memories) care(key queue.Key, uid string) trace.Care {
	m.mu.Lock()
	defer m.mu.Unlock()
	known := m.byKey[key]
	if known == nil || known.uid != uid {
		return trace.Care{}
	}
	restless := m.unrest[key]
	care := trace.Care{Ran: known.ran, Children: known.children, Unrest: restless.words, Among: restless.among}
	if known.trouble.failing {
		care.Failing, care.Error, care.Attempts = true, known.trouble.message, known.failed
		care.Fault, care.Since = known.trouble.fault, known.trouble.since
		care.Among = trace.With(slices.Clone(care.Among), known.trouble.among...)
	}
	return care
}

func (c *Controller) countOwned(parent *object.Object) int {
	n := 0
	for _, kind := range c.children {
		n += c.countKind(kind, parent)
	}
	return n
}

// Family are the children of a parent, in the order of the rules, and its revisions.
func (c *Controller) Family(parent *object.Object) []trace.Child {
	var family []trace.Child
	for _, kind := range c.children {
		for _, child := range kind.view.Owned(parent.UID()) {
			if !c.program.decorates() || c.program.Mark.On(child) {
				family = append(family, trace.Child{Resource: kind.rule.Resource, Object: child})
			}
		}
	}
	for _, revision := range c.revisionsOf(parent) {
		family = append(family, trace.Child{Resource: plan.ControllerRevisions, Object: revision})
	}
	return family
}

// Resource is the kind of its parents.
func (c *Controller) Resource() object.Resource { return c.program.Parent }
