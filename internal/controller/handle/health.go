package handle

import "github.com/setpoint-dev/setpoint/internal/controller"

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
	return h
}
