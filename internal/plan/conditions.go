package plan

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// conditionStamp has the fields of a condition that the hook does not set.
type conditionStamp struct {
	generation int64
	now        time.Time
}

// withConditions merges conditions by type into those of the new status, or of the stored status if
// the new one has none. The transition time changes with the status.
func withConditions(have, want map[string]any, conditions []hook.Condition, stamp conditionStamp) {
	if len(conditions) == 0 {
		return
	}
	former, _ := have["conditions"].([]any)
	list, given := want["conditions"].([]any)
	if !given {
		list = former
	}
	want["conditions"] = stamp.merged(former, list, conditions)
}

// Conditions merges conditions by type into a list, for a generation. The transition time changes
// with the status.
func Conditions(list []any, conditions []hook.Condition, generation int64, now time.Time) []any {
	return conditionStamp{generation, now}.merged(list, list, conditions)
}

func (s conditionStamp) merged(former, list []any, conditions []hook.Condition) []any {
	merged := append([]any(nil), list...)
	for _, c := range conditions {
		fields := conditionFields(c, former, s)
		if i := indexOfType(merged, c.Type); i >= 0 {
			merged[i] = fields
			continue
		}
		merged = append(merged, fields)
	}
	return merged
}

func conditionFields(c hook.Condition, former []any, stamp conditionStamp) map[string]any {
	since := stamp.now.UTC().Format(time.RFC3339)
	if i := indexOfType(former, c.Type); i >= 0 {
		before := former[i].(map[string]any)
		if at, given := before["lastTransitionTime"].(string); given && before["status"] == c.Status {
			since = at
		}
	}
	fields := map[string]any{
		"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message, "lastTransitionTime": since,
	}
	if stamp.generation > 0 {
		fields["observedGeneration"] = stamp.generation
	}
	return fields
}

// indexOfType returns the index of the condition of a type; -1 if there is none.
func indexOfType(list []any, kind string) int {
	for i, item := range list {
		if fields, isObject := item.(map[string]any); isObject && fields["type"] == kind {
			return i
		}
	}
	return -1
}
