package handler

import (
	"cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// request returns the request of a call, without copying an object.
func (r *run) request(c call) *hook.HandlerRequest {
	n := r.newRequest(c.handler.Handler, c.object)
	n.Since = c.handler.watchedSince
	n.Reason, n.DryRun, n.Event = c.reason, r.IsDry(), c.event.kind
	if n.Attempt = c.attempt; n.Attempt > 0 {
		n.FirstAttempt = c.firstAttempt
	}
	n.Progress = c.handler.progressOf(c)
	n.Owned = r.program.ownedGroups(r.owned)
	if c.previous != nil {
		n.PreviousState = c.previous.JSON()
		n.Changes = c.handler.Changes(c.previous, cmp.Or(c.event.New, c.object))
	}
	return n
}

// newRequest returns a request with only the object. Who makes the call adds the Reader.
func (c *Controller) newRequest(h *Handler, o *object.Object) *hook.HandlerRequest {
	return &hook.HandlerRequest{
		Controller: c.program.Object, Handler: h.Name, Object: o.JSON(), Namespace: o.Namespace(), Name: o.Name(),
	}
}

// ownedGroups returns the owned objects in one group for each kind.
func (p *Program) ownedGroups(owned [][]*object.Object) []hook.Group {
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
