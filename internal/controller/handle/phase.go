package handle

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// phase is what a controller has to do with an object, as it is now.
type phase int

const (
	// phaseIgnored: the object is not handled.
	phaseIgnored phase = iota
	// phaseManaged: handlers are told what happens to it.
	phaseManaged
	// phaseReleasing: it is not handled any more, but our finalizer is to go.
	phaseReleasing
	// phasePaused: a user wants it left alone.
	phasePaused
)

// phaseOf looks at an object.
func (p *Program) phaseOf(o *object.Object) phase {
	selected, held := p.selects(o), p.hasFinalizer(o)
	switch {
	case !selected && !held:
		return phaseIgnored
	case plan.Annotation(o, setpoint.AnnotationPaused) == "true":
		return phasePaused
	case !selected:
		return phaseReleasing
	}
	return phaseManaged
}

// matchFunc is the program's condition on objects, with what the API server is not
// asked to select by: see narrowed.
func (p *Program) matchFunc() func(*object.Object) bool {
	selector, err := labels.Parse(p.Labels)
	if err != nil || p.Labels == "" {
		// What is wrong with it, the API server says.
		return p.Matches
	}
	others := p.Matches
	return func(o *object.Object) bool { return selector.Matches(o.Labels()) && (others == nil || others(o)) }
}

// serverSelector is the label selector by which the API server may leave out objects:
// none where one that matches no more is to be let go.
func (p *Program) serverSelector() string {
	if p.usesFinalizer() {
		return ""
	}
	return p.Labels
}

// selects says whether an object is one that is handled.
func (p *Program) selects(o *object.Object) bool { return p.Matches == nil || p.Matches(o) }

// hasFinalizer reports whether an object has the program's finalizer.
func (p *Program) hasFinalizer(o *object.Object) bool { return o.HasFinalizer(p.Finalizer) }

// usesFinalizer says whether objects may be kept by the program's finalizer.
func (p *Program) usesFinalizer() bool {
	return slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.needsFinalizer() })
}

// needsFinalizer says whether an object cannot go before the handler is done.
func (h *Handler) needsFinalizer() bool {
	return h.Daemon != nil || h.handles(hook.ReasonDelete) && !h.Optional
}

// needsFinalizer says whether there is a handler that is to keep this object.
func (p *Program) needsFinalizer(o *object.Object) bool {
	return p.selects(o) && slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.needsFinalizer() && h.matches(nil, o) })
}
