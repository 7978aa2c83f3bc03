package compose

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// phase says what a controller has to do with a parent.
type phase int

const (
	// phaseIgnored means that the controller does not manage the parent.
	phaseIgnored phase = iota
	// phaseManaged calls the sync hook.
	phaseManaged
	// phaseFinalizing calls the finalize hook.
	phaseFinalizing
	// phaseReleasing only removes the controller's finalizer.
	phaseReleasing
	// phasePaused leaves the parent alone until the user resumes it.
	phasePaused
)

func (p *Program) phaseOf(parent *object.Object) phase {
	selected, held := p.selects(parent), p.hasFinalizer(parent)
	switch {
	case !selected && !held:
		return phaseIgnored
	case plan.Annotation(parent, setpoint.AnnotationPaused) == "true":
		return phasePaused
	case p.Finalize == nil && held:
		return phaseReleasing
	case held && (parent.Deleting() || !selected):
		return phaseFinalizing
	case parent.Deleting() && p.Finalize != nil:
		// It is finalized, or was deleted before it had the finalizer.
		return phaseIgnored
	}
	return phaseManaged
}

func (p *Program) selects(parent *object.Object) bool { return anySelects(p.Selections, parent) }

// anySelects reports whether a parent matches one of the selections, or there are none.
func anySelects(all []Selection, parent *object.Object) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(s Selection) bool { return s.matches(parent) })
}

func (s Selection) matches(parent *object.Object) bool {
	if s.Labels != nil && !s.Labels.Matches(parent.Labels()) {
		return false
	}
	return s.Annotations == nil || s.Annotations.Matches(labels.Set(annotationsOf(parent)))
}

// hasFinalizer reports whether a parent has the program's finalizer.
func (p *Program) hasFinalizer(parent *object.Object) bool { return parent.HasFinalizer(p.Finalizer) }
