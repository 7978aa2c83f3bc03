package compose

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// phase is what a controller has to do with a parent, as it is now.
type phase int

const (
	// phaseIgnored: the parent is not in the controller's care.
	phaseIgnored phase = iota
	// phaseManaged: the sync hook says what should be.
	phaseManaged
	// phaseFinalizing: the finalize hook says what should be left.
	phaseFinalizing
	// phaseReleasing: nobody is to be asked, but our finalizer is to go.
	phaseReleasing
	// phasePaused: a user wants the parent left alone.
	phasePaused
)

// phaseOf looks at a parent.
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
		// Its finalize hook is done with it, or never heard of it.
		return phaseIgnored
	}
	return phaseManaged
}

// selects says whether a parent matches one of the program's selections.
func (p *Program) selects(parent *object.Object) bool { return anySelects(p.Selections, parent) }

// anySelects says whether a parent matches one of the selections, or there is none.
func anySelects(all []Selection, parent *object.Object) bool {
	return len(all) == 0 || slices.ContainsFunc(all, func(s Selection) bool { return s.matches(parent) })
}

func (s Selection) matches(parent *object.Object) bool {
	if s.Labels != nil && !s.Labels.Matches(parent.Labels()) {
		return false
	}
	return s.Annotations == nil || s.Annotations.Matches(labels.Set(annotationsOf(parent)))
}

// hasFinalizer says whether a parent carries the program's finalizer.
func (p *Program) hasFinalizer(parent *object.Object) bool {
	return p.Finalizer != "" && bytes.Contains(parent.JSON(), []byte(p.Finalizer)) &&
		slices.Contains(parent.Finalizers(), p.Finalizer)
}
