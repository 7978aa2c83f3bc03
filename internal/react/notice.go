package react

import (
	"cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// notice is what a handler is told of a call, without copying any object.
func (r *run) notice(c call) *hook.Notice {
	h := &r.program.Handlers[c.handler]
	o := c.object
	if r.rehearsed && !c.gone {
		o = r.asAnswered(o)
	}
	n := r.noticeOf(h, o)
	n.Since = r.memory.handlers[c.handler].idle.since
	n.Reason, n.Attempt, n.Gone, n.DryRun = c.reason, c.attempt, c.gone, r.rehearsed
	n.Owned = r.program.shown(r.owned)
	if c.old != nil {
		n.Old = c.old.JSON()
		n.Changes = h.Changes(c.old, cmp.Or(c.event.New, o))
	}
	return n
}

// asAnswered is an object as the handlers before this one would have it: in a rehearsal
// nothing of that is written.
func (r *run) asAnswered(o *object.Object) *object.Object {
	var patch map[string]any
	for _, before := range r.memory.owed {
		if said := saidOf(before.answer, true); len(said) > 0 {
			patch = combined(patch, said)
		}
	}
	if patch == nil {
		return o
	}
	if made := patched(o, patch); made != nil {
		return made
	}
	return o
}

// noticeOf is a notice that says no more than of which object.
func (c *Controller) noticeOf(h *Handler, o *object.Object) *hook.Notice {
	return &hook.Notice{
		Controller: c.program.Object, Handler: h.Name, Object: o.JSON(), Namespace: o.Namespace(), Name: o.Name(), Reader: reader{c},
	}
}

// shown are the owned objects in a group for each kind.
func (p *Program) shown(owned [][]*object.Object) []hook.Group {
	groups := make([]hook.Group, len(p.Owns))
	for i, resource := range p.Owns {
		group := hook.Group{APIVersion: resource.APIVersion(), Kind: resource.Kind}
		if i < len(owned) {
			for _, o := range owned[i] {
				group.Objects = append(group.Objects, hook.Entry{Namespace: o.Namespace(), Name: o.Name(), Object: o.JSON()})
			}
		}
		groups[i] = group
	}
	return groups
}
