package plan

import (
	"encoding/json"
	"maps"
	"time"

	utiljson "k8s.io/apimachinery/pkg/util/json"

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
