package handle

import (
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// ObjectStates returns the state of every handled object, in no order.
func (c *Controller) ObjectStates() []record.ObjectState { return c.Base.ObjectStates(c.objectState) }

// ObjectState returns the state of one object; false if the controller does not handle it.
func (c *Controller) ObjectState(key queue.Key) (record.ObjectState, bool) {
	return c.Base.ObjectState(key, c.objectState)
}

func (c *Controller) objectState(o *object.Object) record.ObjectState {
	state := c.memories.ObjectState(controller.KeyOf(o), o.UID())
	state.Paused = c.program.phaseOf(o) == phasePaused
	state.Children = c.countOwned(o.UID())
	return state
}

// Children returns the owned objects, in the order of the kinds.
func (c *Controller) Children(o *object.Object) []record.Child {
	var children []record.Child
	for i, owned := range c.ownedBy(o) {
		for _, one := range owned {
			children = append(children, record.Child{Resource: c.owned[i].resource, Object: one})
		}
	}
	return children
}
