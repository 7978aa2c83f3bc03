package handler

import (
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// PhaseOf returns the phase of an object.
func (c *Controller) PhaseOf(o *object.Object) controller.Phase {
	return controller.PhaseOf(o, c.program.selects(o), c.program.hasFinalizer(o))
}

// matchFunc returns the program's condition, including the labels that the API server does not
// filter by; see serverSelector.
func (p *Program) matchFunc() func(*object.Object) bool {
	selector, err := labels.Parse(p.Labels)
	if err != nil || p.Labels == "" {
		// The API server reports an invalid selector.
		return p.Matches
	}
	others := p.Matches
	return func(o *object.Object) bool { return selector.Matches(o.Labels()) && (others == nil || others(o)) }
}

// serverSelector returns the label selector for the API server. It is empty if Setpoint must
// see objects that stop matching, to release them.
func (p *Program) serverSelector() string {
	if p.usesFinalizer() {
		return ""
	}
	return p.Labels
}

// selects reports whether an object is handled.
func (p *Program) selects(o *object.Object) bool { return p.Matches == nil || p.Matches(o) }

// handlesObject reports whether a handler may be called for an object. The finalizer of a former
// controller on another object may be that of a controller that still runs.
func (p *Program) handlesObject(o *object.Object) bool {
	return p.selects(o) && slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.matches(nil, o) && h.mayHandle(o) })
}

// hasFinalizer reports whether an object has the program's finalizer. In a deletion, a finalizer of a
// former controller serves as well: no other can be added any more.
func (p *Program) hasFinalizer(o *object.Object) bool {
	return o.HasFinalizer(p.Finalizer) ||
		o.Deleting() && p.handlesObject(o) && slices.ContainsFunc(p.ReplacedFinalizers, o.HasFinalizer)
}

// usesFinalizer reports whether the program may set its finalizer.
func (p *Program) usesFinalizer() bool {
	return slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.needsFinalizer() })
}

// needsFinalizer reports whether a deletion waits for the handler.
func (h *Handler) needsFinalizer() bool {
	return h.Daemon != nil || h.handles(hook.ReasonDelete) && !h.Optional
}

// needsFinalizer reports whether a deletion of this object waits for a handler.
func (p *Program) needsFinalizer(o *object.Object) bool {
	return p.selects(o) && slices.ContainsFunc(p.Handlers, func(h Handler) bool {
		return h.needsFinalizer() && h.matches(nil, o) && h.mayHold(h.lastReason(), nil, o)
	})
}
