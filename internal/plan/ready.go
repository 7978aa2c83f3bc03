package plan

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strconv"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// condition has the fields of a condition that are checked.
type condition struct {
	Type, Status, Reason string
	ObservedGeneration   int64
}

// NotReadyReason returns why a child is not ready; "" if it is. A ready child exists, is not being deleted, has a
// status for its generation, and passes the checks. With an error it is not known whether the child is ready.
func (r Rule) NotReadyReason(child, parent *object.Object) (string, error) {
	switch {
	case child == nil:
		return "it does not exist", nil
	case child.Deleting():
		return "it is being deleted", nil
	}
	observed, err := strconv.ParseInt(string(child.Field("status", "observedGeneration")), 10, 64)
	if err == nil && observed < child.Generation() {
		return "its status is not up to date yet", nil
	}
	if problem := r.failedCondition(child); problem != "" {
		return problem, nil
	}
	for _, check := range r.ExpressionChecks {
		holds, err := check.Holds(child, parent)
		switch {
		case err != nil:
			return "a status check failed: " + err.Error(), fmt.Errorf("%s: %w", child.Ref(), err)
		case !holds:
			return check.Message, nil
		}
	}
	return "", nil
}

// failedCondition returns how the conditions fail the checks; "" if they pass.
func (r Rule) failedCondition(child *object.Object) string {
	if len(r.StatusChecks) == 0 {
		return ""
	}
	var conditions []condition
	if field := child.Field("status", "conditions"); field != nil && json.Unmarshal(field, &conditions) != nil {
		return "its status.conditions is malformed"
	}
	for _, check := range r.StatusChecks {
		if problem := check.failed(conditions, child.Generation()); problem != "" {
			return problem
		}
	}
	return ""
}

// failed returns how the conditions fail the check; "" if they pass.
func (c StatusCheck) failed(conditions []condition, generation int64) string {
	for _, has := range conditions {
		if has.Type != c.Type {
			continue
		}
		switch {
		case has.ObservedGeneration > 0 && has.ObservedGeneration < generation:
			return fmt.Sprintf("its condition %s is not up to date yet", c.Type)
		case c.Status != "" && has.Status != c.Status:
			return fmt.Sprintf("its condition %s is %s, not %s", c.Type, cmp.Or(has.Status, "empty"), c.Status)
		case c.Reason != "" && has.Reason != c.Reason:
			return fmt.Sprintf("its condition %s has the reason %s, not %s", c.Type, cmp.Or(has.Reason, "empty"), c.Reason)
		}
		return ""
	}
	return "it has no condition " + c.Type
}
