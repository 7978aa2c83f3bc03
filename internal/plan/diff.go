package plan

import (
	"cmp"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Diff returns the fields that an action changes: all fields for Create and Delete, and those that
// differ for a Delete that recreates. It is empty if only Setpoint's annotations change. Only the
// server knows what an Apply removes: for that, apply the action as a dry run and call Compare.
func Diff(a Action) ([]object.FieldChange, error) {
	if a.Before == nil || a.Verb != Apply && a.DryRunVerb != Apply {
		return Compare(a.Before, a.After)
	}
	result, err := Overlay(a.Before, a.After)
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", a.Ref, err)
	}
	return Compare(a.Before, result)
}

// Overlay returns an object with the fields of another set on it, as by an apply, as far as that is known here.
func Overlay(under, over *object.Object) (*object.Object, error) {
	have, want, err := decodeBoth(under, over)
	if err != nil {
		return nil, err
	}
	return object.Encode(overlayFields(have, want, under.GroupKind().Group))
}

// Compare returns the fields in which two objects differ; either may be nil. It leaves out system
// fields and Setpoint's annotations, and masks the values in a Secret.
func Compare(before, after *object.Object) ([]object.FieldChange, error) {
	left, err := comparableFields(before)
	if err != nil {
		return nil, err
	}
	right, err := comparableFields(after)
	if err != nil {
		return nil, err
	}
	found := object.KeyedChanges(left, right)
	if o := cmp.Or(before, after); o != nil {
		found = redact.Changes(o.GroupKind(), found)
	}
	return found, nil
}

// Same reports whether two objects are equal but for system fields and Setpoint's annotations. Lists have an order.
func Same(a, b *object.Object) (bool, error) {
	left, err := comparableFields(a)
	if err != nil {
		return false, err
	}
	right, err := comparableFields(b)
	return object.FirstDifference(left, right) == "", err
}

func comparableFields(o *object.Object) (map[string]any, error) {
	if o == nil {
		return nil, nil //nolint:nilnil // A nil object has no fields.
	}
	fields, err := object.Decode(o.JSON())
	if err != nil {
		return nil, fmt.Errorf("compare %s: %w", o.Ref(), err)
	}
	metadata, _ := fields["metadata"].(map[string]any)
	RemoveSystemFields(metadata)
	annotations, _ := metadata["annotations"].(map[string]any)
	dropApplied(annotations)
	if len(annotations) == 0 {
		delete(metadata, "annotations")
	}
	return fields, nil
}
