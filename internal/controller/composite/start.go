package composite

import (
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

func (c *Controller) newRun(of *controller.Run, remembered controller.Remembered) *run {
	parent := of.Stored
	r := &run{Controller: c, Run: of, memory: remembered.(*memory), parent: parent, logic: c.logicOf(parent)}
	r.planner = c.program.planner(parent)
	r.planner.Secrets = of.Secrets
	return r
}

// planner returns what plans the children of a parent. It has no selector yet.
func (p *Program) planner(parent *object.Object) plan.Planner {
	return plan.Planner{
		Parent:           parent,
		Namespaced:       p.Parent.Namespaced,
		Namespaces:       p.Namespaces,
		Rules:            p.Children,
		GenerateSelector: p.GenerateSelector,
		LastApplied:      p.LastApplied,
		OmitValues:       p.OmitValues,
		Manager:          p.Manager,
		Mark:             p.Mark,
		Lenient:          p.Lenient,
	}
}

// Planner returns what plans the children of a parent.
func (p *Program) Planner(parent *object.Object) (plan.Planner, error) {
	planner := p.planner(parent)
	if p.isDecorator() {
		return planner, nil
	}
	var err error
	planner.Selector, err = selectorOf(parent, p.GenerateSelector)
	return planner, err
}

// Drop drops the state of a parent.
func (c *Controller) Drop(key queue.Key) {
	c.dropNameWaiter(key)
	c.lostChildren.Take(key)
	c.recoveryProbe.drop(key)
	c.deletionGuard.drop(guardedParent{c, key})
	c.tools.Versions.drop(guardedParent{c, key})
	c.tools.LogicVersions.drop(guardedParent{c, key})
	c.orphanIndex.drop(key)
	if c.related != nil {
		c.related.Drop(key)
	}
}
