package react

import (
	"bytes"
	"slices"

	"k8s.io/apimachinery/pkg/labels"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// stance is what a controller has to do with an object, as it is now.
type stance int

const (
	// indifferent: the object is not handled.
	indifferent stance = iota
	// handling: handlers are told what happens to it.
	handling
	// releasing: it is not handled any more, but our finalizer is to go.
	releasing
	// pausing: a user wants it left alone.
	pausing
)

// stanceOn looks at an object.
func (p *Program) stanceOn(o *object.Object) stance {
	selected, held := p.selects(o), p.holds(o)
	switch {
	case !selected && !held:
		return indifferent
	case plan.Annotation(o, setpoint.AnnotationPaused) == "true":
		return pausing
	case !selected:
		return releasing
	}
	return handling
}

// matching is the program's condition on objects, with what the API server is not
// asked to select by: see narrowed.
func (p *Program) matching() func(*object.Object) bool {
	selector, err := labels.Parse(p.Labels)
	if err != nil || p.Labels == "" {
		// What is wrong with it, the API server says.
		return p.Matches
	}
	others := p.Matches
	return func(o *object.Object) bool { return selector.Matches(o.Labels()) && (others == nil || others(o)) }
}

// narrowed is the label selector by which the API server may leave out objects:
// none where one that matches no more is to be let go.
func (p *Program) narrowed() string {
	if p.holdsBack() {
		return ""
	}
	return p.Labels
}

// selects says whether an object is one that is handled.
func (p *Program) selects(o *object.Object) bool { return p.Matches == nil || p.Matches(o) }

// holds says whether an object carries the program's finalizer.
func (p *Program) holds(o *object.Object) bool {
	return p.Finalizer != "" && bytes.Contains(o.JSON(), []byte(p.Finalizer)) && slices.Contains(o.Finalizers(), p.Finalizer)
}

// holdsBack says whether objects may be kept by the program's finalizer.
func (p *Program) holdsBack() bool {
	return slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.holdsBack() })
}

// holdsBack says whether an object cannot go before the handler is done.
func (h *Handler) holdsBack() bool {
	return h.Daemon != nil || h.on(hook.ReasonDelete) && !h.Optional
}

// needsHold says whether there is a handler that is to keep this object.
func (p *Program) needsHold(o *object.Object) bool {
	return p.selects(o) && slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.holdsBack() && h.cares(nil, o) })
}
