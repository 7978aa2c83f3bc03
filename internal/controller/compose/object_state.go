package compose

import (
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Describe adds what the controller knows of a parent.
func (c *Controller) Describe(parent *object.Object, state *record.ObjectState) {
	held, value := c.deletionGuard.heldChildren(guardedParent{c, controller.KeyOf(parent)})
	state.HeldDeletions, state.AllowDeletions = len(held), value
	if state.LastRun.IsZero() {
		state.Children = c.countOwned(parent)
	}
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
		for _, child := range kind.watches.owned(parent) {
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
