package composite

import (
	"encoding/json"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// PhaseOf returns the phase of a parent.
func (c *Controller) PhaseOf(parent *object.Object) controller.Phase {
	return c.program.phaseOf(parent, c.logicOf(parent).Finalize != nil)
}

// PhaseOf returns the phase of the parent for the version that the run calls, also if it moves meanwhile.
func (r *run) PhaseOf(parent *object.Object) controller.Phase {
	return r.program.phaseOf(parent, r.logic.Finalize != nil)
}

// phaseOf returns the phase of a parent, whose version finalizes or not.
func (p *Program) phaseOf(parent *object.Object, finalizes bool) controller.Phase {
	selected, held := p.selects(parent), p.hasFinalizer(parent)
	phase := controller.PhaseOf(parent, selected, held)
	switch {
	case phase == controller.PhaseIgnored || phase == controller.PhasePaused:
		return phase
	case !finalizes && held:
		return controller.PhaseReleasing
	case held && (parent.Deleting() || !selected):
		return controller.PhaseFinalizing
	case parent.Deleting() && finalizes:
		// It is finalized, or was deleted before it had the finalizer.
		return controller.PhaseIgnored
	}
	return controller.PhaseManaged
}

func (p *Program) selects(parent *object.Object) bool { return anySelects(p.Selections, parent) }

// anySelects reports whether a parent matches one of the selections, or there are none.
func anySelects(all []Selection, parent *object.Object) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(s Selection) bool { return s.Matches(parent) })
}

// Matches reports whether the selection selects a parent.
func (s Selection) Matches(parent *object.Object) bool {
	if s.Labels != nil && !s.Labels.Matches(parent.Labels()) {
		return false
	}
	return s.Annotations == nil || s.Annotations.Matches(annotationsOf(parent))
}

// hasFinalizer reports whether a parent has the program's finalizer.
func (p *Program) hasFinalizer(parent *object.Object) bool { return parent.HasFinalizer(p.Finalizer) }

// annotationsOf returns all annotations of an object. It parses them each time, because few
// controllers select by annotation.
func annotationsOf(o *object.Object) labels.Set {
	var all labels.Set
	_ = json.Unmarshal(o.Field("metadata", "annotations"), &all) // An object without annotations has no field.
	return all
}
