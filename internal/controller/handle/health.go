package handle

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
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
	if waiting := c.gate.len(); waiting > 0 {
		h.IndexMessage = c.indexMessage(waiting)
	}
	return h
}

// indexMessage says what objects wait for; empty if they wait for a change that is being sent.
func (c *Controller) indexMessage(waiting int) string {
	err := c.backend.IndexError()
	if err == nil {
		return ""
	}
	return fmt.Sprintf("waiting objects: %d; %s", waiting, failure.OneLine(err))
}
