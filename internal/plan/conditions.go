package plan

import (
	"encoding/json"
	"slices"
	"strings"
	"time"
	"unicode"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
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
	return slices.IndexFunc(list, func(item any) bool {
		fields, isObject := item.(map[string]any)
		return isObject && fields["type"] == kind
	})
}

// SyncState is the state of a parent in the terms of kstatus.
type SyncState int

// The states of a StatusReport.
const (
	// Unknown removes the conditions.
	Unknown SyncState = iota
	// Synced means that all children are up to date.
	Synced
	// Reconciling means that they are not yet, and Setpoint continues.
	Reconciling
	// Stalled means that they are not, and a user has to act.
	Stalled
	// Unchanged keeps the stored conditions.
	Unchanged
)

// StatusReport is what Setpoint's own conditions say about a parent.
type StatusReport struct {
	State           SyncState
	Reason, Message string
}

// ownConditionTypes are the types of these conditions. A type that the hook sets belongs to the
// hook.
var ownConditionTypes = [...]string{setpoint.ConditionSynced, setpoint.ConditionReconciling, setpoint.ConditionStalled}

// conditions returns the conditions of a report. Reconciling and Stalled only exist while they are
// True, as kstatus expects.
func (r StatusReport) conditions() []hook.Condition {
	one := func(kind, status string) hook.Condition {
		return hook.Condition{Type: kind, Status: status, Reason: r.Reason, Message: r.Message}
	}
	switch r.State {
	case Synced:
		return []hook.Condition{one(setpoint.ConditionSynced, "True")}
	case Reconciling:
		return []hook.Condition{one(setpoint.ConditionSynced, "False"), one(setpoint.ConditionReconciling, "True")}
	case Stalled:
		return []hook.Condition{one(setpoint.ConditionSynced, "False"), one(setpoint.ConditionStalled, "True")}
	case Unknown, Unchanged:
	}
	return nil
}

// HookConditions returns which of Setpoint's condition types a response sets itself.
func HookConditions(response *hook.Response) []string {
	var status struct{ Conditions []struct{ Type string } }
	if response.Status != nil && json.Unmarshal(response.Status, &status) != nil {
		return nil // Malformed conditions have none of these types.
	}
	var types []string
	for _, kind := range ownConditionTypes {
		inStatus := slices.ContainsFunc(status.Conditions, func(c struct{ Type string }) bool { return c.Type == kind })
		if inStatus || slices.ContainsFunc(response.Conditions, func(c hook.Condition) bool { return c.Type == kind }) {
			types = append(types, kind)
		}
	}
	return types
}

// SetOwnConditions returns the parent with the conditions of a report in its status, except for
// types that the hook sets. Conditions that say the same as the stored ones stay unchanged. If the
// whole status does, it returns the stored parent.
func SetOwnConditions(parent, stored *object.Object, report StatusReport, hookConditions []string, now time.Time) (*object.Object, error) {
	have, _ := object.Decode(stored.Field("status"))
	want, _ := object.Decode(parent.Field("status"))
	if want == nil {
		want = map[string]any{}
	}
	former, _ := have["conditions"].([]any)
	overlaid, given := want["conditions"].([]any)
	if want["conditions"] != nil && !given || slices.ContainsFunc(overlaid, isNoObject) {
		return parent, nil // A field of the author's, which an untyped status takes.
	}
	list := slices.DeleteFunc(slices.Clone(overlaid), func(item any) bool { return isOwnCondition(item, hookConditions) })
	list = append(list, conditionStamp{parent.Generation(), now}.transition(former, report, hookConditions)...)
	if given || len(list) > 0 {
		want["conditions"] = list
	}
	if len(list) == 0 && len(overlaid) > 0 {
		delete(want, "conditions")
	}
	if object.FirstDifference(have, want) == "" {
		return stored, nil
	}
	return parent.WithValue(want, "status")
}

func isNoObject(item any) bool {
	_, is := item.(map[string]any)
	return !is
}

func isOwnCondition(item any, hookConditions []string) bool {
	fields, _ := item.(map[string]any)
	kind, _ := fields["type"].(string)
	return slices.Contains(ownConditionTypes[:], kind) && !slices.Contains(hookConditions, kind)
}

// transition returns the conditions of a report, or the stored ones if they say the same.
func (s conditionStamp) transition(former []any, report StatusReport, hookConditions []string) []any {
	if report.State == Unchanged {
		return slices.DeleteFunc(slices.Clone(former), func(item any) bool { return !isOwnCondition(item, hookConditions) })
	}
	var before, now []any
	same := true
	for _, c := range report.conditions() {
		if slices.Contains(hookConditions, c.Type) {
			continue
		}
		made := conditionFields(c, former, s)
		now = append(now, made)
		if i := indexOfType(former, c.Type); i >= 0 {
			before = append(before, former[i])
			same = same && sameCondition(former[i].(map[string]any), made)
		}
	}
	if same && len(before) == len(now) {
		return before
	}
	return now
}

// sameCondition reports whether two conditions of the same generation say the same.
func sameCondition(before, now map[string]any) bool {
	for _, name := range [...]string{"status", "reason", "observedGeneration"} {
		if object.FirstDifference(before[name], now[name]) != "" {
			return false
		}
	}
	former, _ := before["message"].(string)
	message, _ := now["message"].(string)
	return slices.Equal(wordsOf(former), wordsOf(message))
}

func wordsOf(message string) []string {
	words := strings.FieldsFunc(message, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(words, func(word string) bool { return strings.ContainsFunc(word, unicode.IsDigit) })
}

// WithoutOwnConditions returns a parent as hooks get it: without Setpoint's conditions. So a hook
// that copies the status does not copy them.
func WithoutOwnConditions(stored *object.Object, hookConditions []string) (*object.Object, error) {
	if stored.Field("status", "conditions") == nil {
		return stored, nil
	}
	status, err := object.Decode(stored.Field("status"))
	if err != nil {
		return stored, nil //nolint:nilerr // A status that is not an object has no conditions.
	}
	former, _ := status["conditions"].([]any)
	list := slices.DeleteFunc(slices.Clone(former), func(item any) bool { return isOwnCondition(item, hookConditions) })
	if len(list) == len(former) {
		return stored, nil
	}
	if status["conditions"] = list; len(list) == 0 {
		delete(status, "conditions")
	}
	if len(status) == 0 {
		return stored.With(nil, "status")
	}
	return stored.WithValue(status, "status")
}

// IsStalled reports whether a parent is Stalled in its current generation.
func IsStalled(stored *object.Object, hookConditions []string) bool {
	status, _ := object.Decode(stored.Field("status"))
	list, _ := status["conditions"].([]any)
	i := indexOfType(list, setpoint.ConditionStalled)
	if i < 0 || slices.Contains(hookConditions, setpoint.ConditionStalled) {
		return false
	}
	fields := list[i].(map[string]any)
	return fields["status"] == "True" && object.FirstDifference(fields["observedGeneration"], stored.Generation()) == ""
}
