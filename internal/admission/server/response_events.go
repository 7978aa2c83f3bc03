package server

import (
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// responseEvents returns the events of a response, each with its object. Objects that do
// not and will not exist have none.
func responseEvents(r *hook.ReviewRequest, v *hook.ReviewResponse) []hook.ObjectEvent {
	if r.DryRun {
		return nil
	}
	var all []hook.ObjectEvent
	for _, event := range v.Events {
		if event.Kind == "" {
			event.APIVersion, event.Kind, event.Namespace, event.Name = r.APIVersion, r.Kind, r.Namespace, r.Name
		}
		if event.APIVersion != r.APIVersion || event.Kind != r.Kind || event.Namespace != r.Namespace || event.Name != r.Name {
			all = append(all, event)
			continue
		}
		neverThere := r.Operation == hook.OperationCreate && v.Denial != nil
		if event.Name == "" || neverThere {
			continue
		}
		if event.UID == "" {
			event.UID = uidOf(r)
		}
		all = append(all, event)
	}
	return all
}

// uidOf returns the UID of the stored object.
func uidOf(r *hook.ReviewRequest) string {
	if r.OldObject == nil {
		return ""
	}
	old, err := object.Parse(r.OldObject)
	if err != nil {
		return ""
	}
	return old.UID()
}
