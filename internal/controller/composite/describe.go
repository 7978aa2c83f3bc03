package composite

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/selector"
)

// NewMemory returns an empty memory.
func (c *Controller) NewMemory() controller.Remembered { return new(memory) }

// Describe adds what the controller knows of a parent.
func (c *Controller) Describe(parent *object.Object, state *record.ObjectState) {
	held, value := c.deletionGuard.HeldChildren(c.ID(controller.KeyOf(parent)))
	state.HeldDeletions, state.AllowDeletions = len(held), value
	c.Router.Describe(parent, state)
	if len(state.Shadow) > 0 {
		state.Locations = c.addChildLocations(slices.Clone(state.Locations), parent)
	}
	if state.LastRun.IsZero() {
		state.Children = c.countOwned(parent)
	}
}

// addChildLocations adds where children of a parent may be.
func (c *Controller) addChildLocations(to []record.Location, parent *object.Object) []record.Location {
	for _, rule := range c.program.Children {
		at := record.Location{Resource: rule.Resource}
		if rule.Resource.Namespaced {
			at.Namespace = parent.Namespace()
		}
		to = record.AddLocations(to, at)
	}
	return to
}

// countOwned counts the children of a parent that are not being deleted. Objects that only name the parent as
// their owner do not count: anyone who may create them could raise the limit of the deletion guard.
func (c *Controller) countOwned(parent *object.Object) int {
	manages, n := c.childFilter(parent), 0
	for _, o := range slices.Concat(c.OwnedBy(parent)...) {
		if !o.Deleting() && manages(o) {
			n++
		}
	}
	return n
}

// childFilter tells which of the objects that a parent owns are its children: for a decorator those with its
// mark, else those that the parent's selector matches. The next run releases the others.
func (c *Controller) childFilter(parent *object.Object) func(*object.Object) bool {
	if c.program.isDecorator() {
		return c.program.Mark.On
	}
	children, err := selector.Of(parent, c.program.GenerateSelector)
	return func(o *object.Object) bool { return err == nil && children.Matches(o.Labels()) }
}

// Children returns the children of a parent in the order of the rules, then its revisions.
func (c *Controller) Children(parent *object.Object) []record.Child {
	owned := slices.DeleteFunc(c.Owned.Children(parent), func(child record.Child) bool {
		return c.program.isDecorator() && !c.program.Mark.On(child.Object)
	})
	for _, revision := range c.revisionsOf(parent) {
		owned = append(owned, record.Child{Resource: plan.ControllerRevisions, Object: revision})
	}
	return owned
}
