package handle

import "github.com/setpoint-dev/setpoint/internal/controller"

// Health returns the health of the controller. Handled objects are the parents, objects that
// they own the children.
func (c *Controller) Health() controller.Health {
	h := c.Base.Health()
	c.memories.AddTo(&h)
	if c.program.Matches != nil {
		h.Parents = c.memories.Len()
	}
	for _, uid := range c.memories.UIDs() {
		h.Children += c.countOwned(uid)
	}
	return h
}
