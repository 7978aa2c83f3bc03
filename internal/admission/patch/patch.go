// Package patch turns the changes of a review into a JSON patch: it compares objects, and
// applies the changes that a Go type made to the object as the API server sent it. It
// works on bytes, so that what it does not change stays as it is.
package patch

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var errTwoChanges = errors.New("object, patch and jsonPatch are mutually exclusive")

// For returns the JSON patch of a response, or nil. A JSON patch of the response has the
// form that the contract demands, and the API server checks its effect. Whole numbers become integers.
func For(r *hook.ReviewRequest, v *hook.ReviewResponse) (json.RawMessage, error) {
	switch changes := countChanges(v); {
	case changes == 0:
		return nil, nil
	case changes > 1:
		return nil, errTwoChanges
	case r.Object == nil:
		return nil, fmt.Errorf("%s has no object to change", r.Operation)
	case v.JSONPatch != nil:
		return object.WholeNumbers(v.JSONPatch), nil
	case v.Object != nil:
		return replacementPatch(r.Object, object.WholeNumbers(v.Object))
	}
	return patchFromMerge(r.Object, object.WholeNumbers(v.Patch))
}

// countChanges counts the forms in which a response has changes.
func countChanges(v *hook.ReviewResponse) (ways int) {
	for _, way := range []json.RawMessage{v.Object, v.Patch, v.JSONPatch} {
		if way != nil {
			ways++
		}
	}
	return ways
}

// replacementPatch returns the patch from one object to another of the same kind.
func replacementPatch(raw, replacement []byte) (json.RawMessage, error) {
	before, err := fieldsOf(raw)
	if err != nil {
		return nil, fmt.Errorf("the reviewed object: %w", err)
	}
	after, err := fieldsOf(replacement)
	if err != nil {
		return nil, fmt.Errorf("object: %w", err)
	}
	for _, name := range []string{"apiVersion", "kind"} {
		if was, is := before.value(name), after.value(name); was != nil && !sameScalar(was, is) {
			return nil, fmt.Errorf("object: %s must stay %s, is %s", name, was, orNothing(is))
		}
	}
	return Diff(raw, replacement)
}

func orNothing(value []byte) []byte {
	if value == nil {
		return []byte("missing")
	}
	return value
}

// patchFromMerge is the patch that does what a JSON merge patch does.
func patchFromMerge(raw, patch []byte) (json.RawMessage, error) {
	if kindOf(patch) != '{' {
		return nil, errors.New("patch: must be an object")
	}
	before, err := decode(raw)
	if err != nil {
		return nil, fmt.Errorf("the reviewed object: %w", err)
	}
	changes, err := decode(patch)
	if err != nil {
		return nil, fmt.Errorf("patch: %w", err)
	}
	merged, err := json.Marshal(object.MergePatch(before, changes))
	if err != nil {
		return nil, err
	}
	return replacementPatch(raw, merged)
}

// decode decodes an object whose numbers keep their text.
func decode(data []byte) (fields map[string]any, err error) {
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber()
	err = decoder.Decode(&fields)
	return fields, err
}

// Rebase applies the difference of before and after to raw; nil if there is none.
//
// Before and after are raw as decoded and encoded by a Go type, which may not have all
// fields. Fields of raw that before does not have are kept, also in elements of lists,
// which are matched by their identity or index.
func Rebase(raw, before, after []byte) (rebased []byte, err error) {
	if bytes.Equal(before, after) {
		return nil, nil
	}
	result, err := appendRebased(nil, raw, before, after)
	if err != nil {
		return nil, fmt.Errorf("apply the changes: %w", err)
	}
	return result, nil
}

// Diff returns the JSON patch from one object to another, or nil.
func Diff(raw, changed []byte) (jsonPatch []byte, err error) {
	d := differ{ops: []byte{'['}}
	if err := d.compare(raw, changed); err != nil {
		return nil, fmt.Errorf("compare two objects: %w", err)
	}
	if len(d.ops) == 1 {
		return nil, nil
	}
	return append(d.ops, ']'), nil
}
