package compose

import (
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

func (c *Controller) newRun(of *controller.Run, remembered controller.Remembered) *run {
	parent := of.Stored
	r := &run{Controller: c, Run: of, memory: remembered.(*memory), parent: parent}
	r.planner = plan.Planner{
		Parent:           parent,
		Namespaced:       c.program.Parent.Namespaced,
		Namespaces:       c.program.Scope.Namespaces,
		Rules:            c.program.Children,
		GenerateSelector: c.program.GenerateSelector,
		LastApplied:      c.program.LastApplied,
		OmitValues:       c.program.OmitValues,
		Manager:          c.program.Manager,
		Mark:             c.program.Mark,
		IgnoreNamespaces: c.program.IgnoreNamespaces,
	}
	return r
}

// Drop drops the state of a parent.
func (c *Controller) Drop(key queue.Key) {
	c.dropNameWaiter(key)
	c.lostChildren.Take(key)
	c.recoveryProbe.drop(key)
	c.deletionGuard.drop(guardedParent{c, key})
	c.orphanIndex.drop(key)
	if c.related != nil {
		c.related.Drop(key)
	}
}
