package composite

import (
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// statusOwner returns the name of the older controller that stores the status of a parent; empty if
// this one does.
func (p *Program) statusOwner(parent *object.Object) string {
	i := slices.IndexFunc(p.StatusOwners, func(o StatusOwner) bool { return o.selects(parent) })
	if i < 0 {
		return ""
	}
	return p.StatusOwners[i].Name
}

func (o StatusOwner) selects(parent *object.Object) bool {
	inside := o.Namespace == "" || parent.Namespace() == "" || parent.Namespace() == o.Namespace
	return inside && anySelects(o.Selections, parent)
}

// overlayResponse returns the parent with the response applied. If another controller stores the
// status, it ignores that of the response and adds a warning.
func (r *run) overlayResponse() (*object.Object, error) {
	owner := r.program.statusOwner(r.Stored)
	if owner == "" {
		return r.planner.OverlayResponse(r.parent, r.program.Parent, r.response, r.tools.Now())
	}
	if hasStatus(r.response) {
		r.response.Events = append(slices.Clone(r.response.Events), hook.Event{Type: controller.Warning, Reason: ReasonStatusIgnored,
			Message: "the status in the response of " + r.program.Name + " is ignored: " + owner +
				" takes precedence for this object and stores its status"})
	}
	return r.parent, nil
}

// hasStatus reports whether a response has a status that is not empty.
func hasStatus(response *hook.Response) bool {
	var members map[string]json.RawMessage
	unread := response.Status != nil && json.Unmarshal(response.Status, &members) != nil
	return unread || len(members) > 0 || len(response.Conditions) > 0 || response.Message != ""
}
