package explore

import (
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// actionKind is a kind of step.
type actionKind string

const (
	deliver   actionKind = "deliver"   // the next event of a kind reaches a cache
	reconcile actionKind = "reconcile" // a run begins
	send      actionKind = "request"   // the API server handles the next request of a run
	reject    actionKind = "reject"    // the API server or the network fails the next request of a run
	restart   actionKind = "restart"   // a process ends, and starts again
	edit      actionKind = "edit"      // a user edits an object
	interfere actionKind = "interfere" // another client edits or deletes a child
	proceed   actionKind = "proceed"   // another controller does its work
	collect   actionKind = "collect"   // the garbage collector does, or a namespace that terminates
)

// Action is one step in a form that survives in a file.
type Action struct {
	Step actionKind `json:"step"`
	// Process is the name of the process that makes the step, Controller that of its controller.
	Process    string `json:"process,omitempty"`
	Controller string `json:"controller,omitempty"`
	// Key is the parent or the object of a run.
	Key string `json:"key,omitempty"`
	// Object is what the step is about.
	Object *object.Ref `json:"object,omitempty"`
	// Name is that of an edit, of a failure, or of a change by the environment.
	Name string `json:"name,omitempty"`
}

// action is an Action in memory.
type action struct {
	kind       actionKind
	process    int
	name       *name
	controller string
	key        queue.Key
	text       string
}

// export returns the action for a file.
func (e *engine) export(a action) Action {
	out := Action{Step: a.kind, Controller: a.controller, Name: a.text}
	if a.process >= 0 && len(e.options.Controllers) > 1 {
		out.Process = e.options.Controllers[a.process].Name
	}
	if a.key != (queue.Key{}) {
		out.Key = a.key.String()
	}
	if a.name != nil {
		ref := a.name.ref
		out.Object = &ref
	}
	return out
}

// transition is a step from one state to the next.
type transition struct {
	action action
	to     state
	effect uint32
	// findings are what is wrong with the step itself.
	findings []finding
}

// operation is what a step did to an object that is stored.
type operation uint8

const (
	untouched operation = iota
	created
	updated
	deleted
)

// effect is what a transition means for the properties that are read from the graph.
type effect struct {
	id uint32
	// deviation marks edits, crashes and faults: what need not happen.
	deviation bool
	// resets marks what makes creations and deletions expected: edits and faults.
	resets bool
	name   *name
	what   operation
	// ends marks the end of a pod, after which a new one is expected.
	ends bool
	// own marks writes of the processes; fresh those of runs that know the newest specs.
	own, fresh bool
	// by is the object whose run has created one; nil for other steps.
	by *name
}

func (e *engine) effectOf(x effect) uint32 {
	if x == (effect{}) {
		return 0
	}
	flags := uint32(x.what)
	for i, set := range []bool{x.deviation, x.resets, x.own, x.fresh, x.ends, x.name != nil, x.by != nil} {
		if set {
			flags |= 1 << (8 + i)
		}
	}
	k := key(nil).number(flags)
	for _, n := range []*name{x.name, x.by} {
		if n != nil {
			k = k.number(n.id)
		}
	}
	return e.effects.add(k, func(id uint32) *effect {
		x.id = id
		return &x
	}).id
}

// effectOn returns the effect of a change of what is stored.
func effectOn(changed []difference) effect {
	if len(changed) == 0 {
		return effect{}
	}
	switch c := changed[0]; {
	case c.before == nil:
		return effect{name: c.after.name, what: created}
	case c.after.gone:
		return effect{name: c.after.name, what: deleted}
	default:
		return effect{name: c.after.name, what: updated}
	}
}
