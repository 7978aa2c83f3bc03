// Package patch turns the changes of a review into a JSON patch: it compares objects, and
// applies the changes that a Go type made to the object as the API server sent it.
package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var errTwoChanges = errors.New("object, patch and jsonPatch are mutually exclusive")

// For returns the JSON patch of a response, or nil. A JSON patch of the response has the
// form that the contract demands, and the API server checks its effect. Whole numbers become integers.
func For(r *hook.ReviewRequest, v *hook.ReviewResponse) (json.RawMessage, error) {
	forms := lists.Filter([]json.RawMessage{v.Object, v.Patch, v.JSONPatch}, func(form json.RawMessage) bool { return form != nil })
	switch {
	case len(forms) == 0:
		return nil, nil
	case len(forms) > 1:
		return nil, errTwoChanges
	case r.Object == nil:
		return nil, fmt.Errorf("%s has no object to change", r.Operation)
	case v.JSONPatch != nil:
		return object.WholeNumbers(v.JSONPatch), nil
	}
	before, err := decode("the reviewed object", r.Object)
	if err != nil {
		return nil, err
	}
	if v.Object != nil {
		after, err := decode("object", object.WholeNumbers(v.Object))
		if err != nil {
			return nil, err
		}
		return replacementPatch(before, after)
	}
	changes, err := decode("patch", object.WholeNumbers(v.Patch))
	if err != nil {
		return nil, err
	}
	return replacementPatch(before, object.MergePatch(before, changes))
}

// replacementPatch returns the patch from one object to another of the same kind.
func replacementPatch(before, after map[string]any) (json.RawMessage, error) {
	for _, name := range []string{"apiVersion", "kind"} {
		if was, is := before[name], after[name]; was != nil && was != is {
			return nil, fmt.Errorf("object: %s must stay %q, is %q", name, was, is)
		}
	}
	var d differ
	d.compare(before, after)
	if d.operations == nil {
		return nil, nil
	}
	return json.Marshal(d.operations)
}

// decode decodes an object, with its name in errors.
func decode(what string, data []byte) (map[string]any, error) {
	fields, err := object.DecodeExact(data)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", what, err)
	}
	return fields, nil
}

// Rebase applies the difference of before and after to raw; nil if there is none.
//
// Before and after are raw as decoded and encoded by a Go type, which may not have all
// fields. Fields of raw that before does not have are kept, also in elements of lists,
// which are matched by their identity or index.
func Rebase(raw, before, after []byte) (json.RawMessage, error) {
	if bytes.Equal(before, after) {
		return nil, nil
	}
	var versions [3]map[string]any
	for i, data := range [][]byte{raw, before, after} {
		var err error
		if versions[i], err = decode("the object", data); err != nil {
			return nil, err
		}
	}
	return json.Marshal(rebased(versions[0], versions[1], versions[2]))
}
