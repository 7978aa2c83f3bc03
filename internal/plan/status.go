package plan

import (
	"encoding/json"
	"maps"
	"slices"
	"strings"
	"time"
	"unicode"

	utiljson "k8s.io/apimachinery/pkg/util/json"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// FieldObservedGeneration is the field of the status that Setpoint sets, for a composite of a custom resource.
const FieldObservedGeneration = "observedGeneration"

// OverlayResponse returns the parent with the status of a response and, for a decorator, its labels
// and annotations. It returns the same parent if nothing changes.
func (f *Planner) OverlayResponse(parent *object.Object, resource object.Resource, response *hook.Response, now time.Time) (*object.Object,
	error) {
	if f.isDecorator() {
		var err error
		if parent, err = decorate(parent, response); err != nil {
			return nil, err
		}
	}
	if f.keepsStatus(resource, response) {
		return parent, nil
	}
	var want map[string]any
	if err := utiljson.Unmarshal(response.Status, &want); response.Status != nil && err != nil {
		return nil, err
	}
	// A missing or malformed status counts as empty.
	have, _ := object.Decode(parent.Field("status"))
	want = f.completeStatus(resource, have, want)
	if resource.Custom && !f.isDecorator() {
		want[FieldObservedGeneration] = parent.Generation()
	}
	withConditions(have, want, response.Conditions, conditionStamp{parent.Generation(), now})
	if response.Message != "" {
		want["message"] = response.Message
	}
	// A decorator may give an object without a status an empty one. A composite sets observedGeneration.
	creates := resource.Custom && response.Status != nil && parent.Field("status") == nil
	if object.FirstDifference(have, want) == "" && !creates {
		return parent, nil
	}
	return parent.WithValue(want, "status")
}

// keepsStatus reports whether the response leaves the status alone.
func (f *Planner) keepsStatus(resource object.Resource, response *hook.Response) bool {
	if !resource.Status && !f.isDecorator() {
		return true
	}
	nothing := response.Status == nil && len(response.Conditions) == 0 && response.Message == ""
	return nothing && (f.isDecorator() || !resource.Custom)
}

// completeStatus completes the status of a response. For a composite it replaces the status of a custom
// resource. The status of a built-in kind has other writers: it is merged by member, and null removes
// one. A decorator replaces the status of a custom resource, or does not change it if the response has none.
func (f *Planner) completeStatus(resource object.Resource, have, want map[string]any) map[string]any {
	switch {
	case f.isDecorator() && want == nil:
		want = maps.Clone(have)
	case !resource.Custom:
		want = merger{keys: object.StatusKeys}.objects(have, nil, want)
	}
	if want == nil {
		want = map[string]any{}
	}
	withoutNulls(want)
	return want
}

// decorate sets the labels and annotations of a response on the parent. It leaves others alone.
func decorate(parent *object.Object, response *hook.Response) (*object.Object, error) {
	var edits []object.Edit
	for _, field := range [...]struct {
		name    string
		changes map[string]*string
	}{{"labels", response.Labels}, {"annotations", response.Annotations}} {
		edit, changed, err := editStrings(parent.Field("metadata", field.name), field.changes)
		if err != nil {
			return nil, err
		}
		if changed {
			edit.Path = []string{"metadata", field.name}
			edits = append(edits, edit)
		}
	}
	if len(edits) == 0 {
		return parent, nil
	}
	return parent.Edited(edits...)
}

// editStrings returns the edit that sets and removes members of a map of strings.
func editStrings(field []byte, changes map[string]*string) (object.Edit, bool, error) {
	if len(changes) == 0 {
		return object.Edit{}, false, nil
	}
	have := map[string]string{}
	if field != nil {
		if err := json.Unmarshal(field, &have); err != nil {
			return object.Edit{}, false, err
		}
	}
	want := maps.Clone(have)
	for name, value := range changes {
		if value == nil {
			delete(want, name)
			continue
		}
		want[name] = *value
	}
	if maps.Equal(have, want) {
		return object.Edit{}, false, nil
	}
	if len(want) == 0 {
		return object.Edit{}, true, nil // An edit without a value removes the member.
	}
	text, err := json.Marshal(want)
	return object.Edit{Value: text}, true, err
}

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

// OwnConditions are the types of these conditions. A type that the hook sets belongs to the
// hook.
var OwnConditions = [...]string{setpoint.ConditionSynced, setpoint.ConditionReconciling, setpoint.ConditionStalled}

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
	for _, kind := range OwnConditions {
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
	isNoObject := func(item any) bool {
		_, is := item.(map[string]any)
		return !is
	}
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

func isOwnCondition(item any, hookConditions []string) bool {
	fields, _ := item.(map[string]any)
	kind, _ := fields["type"].(string)
	return slices.Contains(OwnConditions[:], kind) && !slices.Contains(hookConditions, kind)
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
