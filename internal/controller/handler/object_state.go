package handler

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// Describe adds what the controller knows of an object.
func (c *Controller) Describe(o *object.Object, state *record.ObjectState) {
	state.Waiting = c.waitingFor(o)
	state.Children = c.countOwned(o.UID(), o.Namespace())
}

// Children returns the owned objects, in the order of the kinds.
func (c *Controller) Children(o *object.Object) []record.Child {
	var children []record.Child
	for i, owned := range c.ownedBy(o) {
		for _, one := range owned {
			children = append(children, record.Child{Resource: c.program.Owns[i], Object: one})
		}
	}
	return children
}
