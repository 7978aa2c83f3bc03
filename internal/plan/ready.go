package plan

import (
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// condition is one condition of a status, as far as it is checked.
type condition struct {
	Type, Status, Reason string
	ObservedGeneration   int64
}

// notReadyReason says why a child is not well, "" if it is: it is there to stay, its
// status is about what it is now, and it passes the checks.
func (r Rule) notReadyReason(child *object.Object) string {
	switch {
	case child == nil:
		return "it is not there"
	case child.Deleting():
		return "it is being deleted"
	case hasStaleStatus(child):
		return "its status does not speak of its latest change yet"
	case len(r.StatusChecks) == 0:
		return ""
	}
	var conditions []condition
	if field := child.Field("status", "conditions"); field != nil && json.Unmarshal(field, &conditions) != nil {
		return "its status.conditions are no conditions"
	}
	for _, check := range r.StatusChecks {
		if problem := check.failed(conditions, child.Generation()); problem != "" {
			return problem
		}
	}
	return ""
}

// hasStaleStatus says that the child's status is one of a former generation.
func hasStaleStatus(child *object.Object) bool {
	observed, err := strconv.ParseInt(string(child.Field("status", "observedGeneration")), 10, 64)
	return err == nil && observed < child.Generation()
}

// failed says how the conditions fail the check, "" if they do not.
func (c StatusCheck) failed(conditions []condition, generation int64) string {
	for _, has := range conditions {
		if has.Type != c.Type {
			continue
		}
		switch {
		case has.ObservedGeneration > 0 && has.ObservedGeneration < generation:
			return fmt.Sprintf("its condition %s does not speak of its latest change yet", c.Type)
		case c.Status != "" && has.Status != c.Status:
			return fmt.Sprintf("its condition %s is %s, not %s", c.Type, orEmpty(has.Status), c.Status)
		case c.Reason != "" && has.Reason != c.Reason:
			return fmt.Sprintf("its condition %s has the reason %s, not %s", c.Type, orEmpty(has.Reason), c.Reason)
		}
		return ""
	}
	return "it has no condition " + c.Type
}

func orEmpty(text string) string {
	if text == "" {
		return "empty"
	}
	return text
}
