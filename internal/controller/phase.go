package controller

import (
	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Phase is what a controller has to do with an object.
type Phase int

const (
	// PhaseIgnored means that the controller does not manage the object.
	PhaseIgnored Phase = iota
	// PhaseManaged calls the hook or the handlers.
	PhaseManaged
	// PhaseFinalizing calls the finalize hook.
	PhaseFinalizing
	// PhaseReleasing only removes the controller's finalizer.
	PhaseReleasing
	// PhasePaused leaves the object alone until the user resumes it.
	PhasePaused
)

// PhaseOf returns the phase of an object that the controller selects, or that has its finalizer.
func PhaseOf(o *object.Object, selected, finalizer bool) Phase {
	switch {
	case !selected && !finalizer:
		return PhaseIgnored
	case plan.Annotation(o, setpoint.AnnotationPaused) == "true":
		return PhasePaused
	case !selected:
		return PhaseReleasing
	}
	return PhaseManaged
}

// SkipReason says why nothing is called in the phase; empty if something may be.
func (p Phase) SkipReason() string {
	return map[Phase]string{
		PhaseIgnored:   "not managed by this controller: its labels or annotations do not match, or it is being deleted",
		PhasePaused:    "paused by its annotation",
		PhaseReleasing: "only the finalizer of this controller would be removed",
	}[p]
}
