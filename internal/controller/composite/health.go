package composite

import (
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Health returns the health of the controller.
func (c *Controller) Health() controller.Health {
	h := c.Base.Health()
	if c.related != nil {
		for _, w := range c.related.Watches() {
			if w.Err != nil {
				h.WatchErrors[w.Selection.String()] = w.Err
			}
		}
	}
	h.Held, h.HeldUnknown = c.deletionGuard.heldByController(c), c.deletionGuard.heldUnknown()
	if c.program.serverSelector() == "" && len(c.program.Selections) > 0 {
		h.Parents = c.Memories.Len()
	}
	return h
}

// RelatedKinds returns the kinds of the related objects that the controller watches.
func (c *Controller) RelatedKinds() []object.Resource {
	if c.related == nil {
		return nil
	}
	var all []object.Resource
	for _, w := range c.related.Watches() {
		all = append(all, w.Selection.Resource)
	}
	return all
}
