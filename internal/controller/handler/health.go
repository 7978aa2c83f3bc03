package handler

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Health returns the health of the controller. Handled objects are the parents, objects that
// they own the children.
func (c *Controller) Health() controller.Health {
	h := c.Base.Health()
	if c.program.Matches != nil {
		h.Parents = c.Memories.Len()
	}
	for key, uid := range c.Memories.UIDs() {
		h.Children += c.countOwned(uid, key.Namespace)
	}
	if err := c.backend.StreamError(); err != nil {
		h.StreamMessage = failure.OneLine(err)
	}
	if err := c.backend.IndexError(); err != nil && c.gate.len() > 0 {
		h.IndexMessage = fmt.Sprintf("waiting objects: %d; %s", c.gate.len(), failure.OneLine(err))
	}
	return h
}

// waitingFor returns why an object waits for an index; empty if it does not, or only for a change
// that is being sent.
func (c *Controller) waitingFor(o *object.Object) string {
	if err := c.backend.IndexError(); err != nil && c.gate.isHeld(controller.KeyOf(o)) {
		return failure.OneLine(err)
	}
	return ""
}
