package compose

import (
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// ObjectStates returns the state of every parent, in no order.
func (c *Controller) ObjectStates() []record.ObjectState { return c.Base.ObjectStates(c.objectState) }

// ObjectState returns the state of one parent; false if the controller does not manage it.
func (c *Controller) ObjectState(key queue.Key) (record.ObjectState, bool) {
	return c.Base.ObjectState(key, c.objectState)
}

func (c *Controller) objectState(parent *object.Object) record.ObjectState {
	key := controller.KeyOf(parent)
	state := c.memories.ObjectState(key, parent.UID())
	state.Paused = c.program.phaseOf(parent) == phasePaused
	held, value := c.deletionGuard.heldChildren(guardedParent{c, key})
	state.HeldDeletions, state.AllowDeletions = len(held), value
	if state.LastRun.IsZero() {
		state.Children = c.countOwned(parent)
	}
	return state
}

func (c *Controller) countOwned(parent *object.Object) int {
	n := 0
	for _, kind := range c.children {
		n += c.countKind(kind, parent)
	}
	return n
}

// Children returns the children of a parent in the order of the rules, then its revisions.
func (c *Controller) Children(parent *object.Object) []record.Child {
	var family []record.Child
	for _, kind := range c.children {
		for _, child := range kind.view.Owned(parent.UID()) {
			if !c.program.isDecorator() || c.program.Mark.On(child) {
				family = append(family, record.Child{Resource: kind.rule.Resource, Object: child})
			}
		}
	}
	for _, revision := range c.revisionsOf(parent) {
		family = append(family, record.Child{Resource: plan.ControllerRevisions, Object: revision})
	}
	return family
}
