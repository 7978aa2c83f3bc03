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
	"github.com/setpoint-dev/setpoint/internal/lists"
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
	labels, err := editStrings(parent, "labels", response.Labels)
	if err != nil {
		return nil, err
	}
	annotations, err := editStrings(parent, "annotations", response.Annotations)
	if err != nil || len(labels)+len(annotations) == 0 {
		return parent, err
	}
	return parent.Edited(slices.Concat(labels, annotations)...)
}

// editStrings returns the edit that sets and removes members of a map in metadata, if there is anything to change.
func editStrings(o *object.Object, name string, changes map[string]*string) ([]object.Edit, error) {
	have := map[string]string{}
	if field := o.Field("metadata", name); field != nil && len(changes) > 0 {
		if err := json.Unmarshal(field, &have); err != nil {
			return nil, err
		}
	}
	want := maps.Clone(have)
	for key, value := range changes {
		if value == nil {
			delete(want, key)
			continue
		}
		want[key] = *value
	}
	edit := object.Edit{Path: []string{"metadata", name}}
	switch {
	case maps.Equal(have, want):
		return nil, nil
	case len(want) == 0: // An edit without a value removes the member.
		return []object.Edit{edit}, nil
	}
	var err error
	edit.Value, err = json.Marshal(want)
	return []object.Edit{edit}, err
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
	previous, _ := have["conditions"].([]any)
	list, given := want["conditions"].([]any)
	if !given {
		list = previous
	}
	want["conditions"] = stamp.merged(previous, list, conditions)
}

// Conditions merges conditions by type into a list, for a generation. The transition time changes with the status.
func Conditions(list []any, conditions []hook.Condition, generation int64, now time.Time) []any {
	return conditionStamp{generation, now}.merged(list, list, conditions)
}

func (s conditionStamp) merged(previous, list []any, conditions []hook.Condition) []any {
	merged := append([]any(nil), list...)
	for _, c := range conditions {
		fields := s.stamped(c, previous)
		if i := indexOfType(merged, c.Type); i >= 0 {
			merged[i] = fields
			continue
		}
		merged = append(merged, fields)
	}
	return merged
}

// stamped returns a condition as it is stored, given those that are stored.
func (s conditionStamp) stamped(c hook.Condition, previous []any) map[string]any {
	since := s.now.UTC().Format(time.RFC3339)
	if i := indexOfType(previous, c.Type); i >= 0 {
		before := previous[i].(map[string]any)
		if at, given := before["lastTransitionTime"].(string); given && before["status"] == c.Status {
			since = at
		}
	}
	fields := map[string]any{
		"type": c.Type, "status": c.Status, "reason": c.Reason, "message": c.Message, "lastTransitionTime": since,
	}
	if s.generation > 0 {
		fields["observedGeneration"] = s.generation
	}
	return fields
}

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

// OwnConditions are the types of these conditions. A type that the hook sets belongs to the hook.
var OwnConditions = [...]string{setpoint.ConditionSynced, setpoint.ConditionReconciling, setpoint.ConditionStalled}

// conditions returns those of a report. Reconciling and Stalled only exist while they are True, as kstatus expects.
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

// SetOwnConditions returns the parent with the conditions of a report, except for types that the hook sets. Those that
// say the same as before stay unchanged; if the whole status does, it returns the stored parent.
func SetOwnConditions(parent, stored *object.Object, report StatusReport, hookConditions []string, now time.Time) (*object.Object, error) {
	have, _ := object.Decode(stored.Field("status"))
	want, _ := object.Decode(parent.Field("status"))
	if want == nil {
		want = map[string]any{}
	}
	previous, _ := have["conditions"].([]any)
	overlaid, given := want["conditions"].([]any)
	isNoObject := func(item any) bool {
		_, is := item.(map[string]any)
		return !is
	}
	if want["conditions"] != nil && !given || slices.ContainsFunc(overlaid, isNoObject) {
		return parent, nil // A field of the author's, which an untyped status takes.
	}
	stamp := conditionStamp{parent.Generation(), now}
	list := append(withoutOwn(overlaid, hookConditions), stamp.own(previous, report, hookConditions)...)
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

func withoutOwn(list []any, hookConditions []string) []any {
	return slices.DeleteFunc(slices.Clone(list), func(item any) bool { return isOwnCondition(item, hookConditions) })
}

// own returns the conditions of a report, or the stored ones if they say the same.
func (s conditionStamp) own(previous []any, report StatusReport, hookConditions []string) []any {
	if report.State == Unchanged {
		return lists.Filter(previous, func(item any) bool { return isOwnCondition(item, hookConditions) })
	}
	var same, now []any
	for _, c := range report.conditions() {
		if slices.Contains(hookConditions, c.Type) {
			continue
		}
		made := s.stamped(c, previous)
		now = append(now, made)
		if i := indexOfType(previous, c.Type); i >= 0 && sameCondition(previous[i].(map[string]any), made) {
			same = append(same, previous[i])
		}
	}
	if len(same) == len(now) {
		return same
	}
	return now
}

func sameCondition(before, now map[string]any) bool {
	for _, name := range [...]string{"status", "reason", "observedGeneration"} {
		if object.FirstDifference(before[name], now[name]) != "" {
			return false
		}
	}
	previous, _ := before["message"].(string)
	message, _ := now["message"].(string)
	return slices.Equal(wordsOf(previous), wordsOf(message))
}

func wordsOf(message string) []string {
	words := strings.FieldsFunc(message, func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	return slices.DeleteFunc(words, func(word string) bool { return strings.ContainsFunc(word, unicode.IsDigit) })
}

// WithoutOwnConditions returns a parent without Setpoint's conditions, so that a hook that copies the status has none.
func WithoutOwnConditions(stored *object.Object, hookConditions []string) (*object.Object, error) {
	if stored.Field("status", "conditions") == nil {
		return stored, nil
	}
	status, err := object.Decode(stored.Field("status"))
	if err != nil {
		return stored, nil //nolint:nilerr // A status that is not an object has no conditions.
	}
	previous, _ := status["conditions"].([]any)
	list := withoutOwn(previous, hookConditions)
	if len(list) == len(previous) {
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
