package plan

import (
	"encoding/json"
	"maps"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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
