package plan

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// A null in a response removes the field from the child, also one that no manager applied: a default, or a
// field of others. It does so once, when it is new in the response. Later the field is as one that the
// response does not have: a default would differ for ever, and others may need the field.

// withoutNulls removes null members from objects at any depth. List items stay, because their
// positions matter.
func withoutNulls(tree any) {
	switch t := tree.(type) {
	case map[string]any:
		for name, value := range t {
			if value == nil {
				delete(t, name)
				continue
			}
			withoutNulls(value)
		}
	case []any:
		for _, item := range t {
			withoutNulls(item)
		}
	}
}

// hasNulls reports whether an object has a null member at any depth.
func hasNulls(tree any) bool {
	switch t := tree.(type) {
	case map[string]any:
		for _, value := range t {
			if value == nil || hasNulls(value) {
				return true
			}
		}
	case []any:
		return slices.ContainsFunc(t, func(item any) bool { return item != nil && hasNulls(item) })
	}
	return false
}

// RemoveNulls removes what is null in the desired fields from an object, and reports whether there was
// something to remove.
func RemoveNulls(have, desired any) (removed bool) {
	switch want := desired.(type) {
	case map[string]any:
		members, _ := have.(map[string]any)
		for name, value := range want {
			if _, exists := members[name]; exists && value == nil {
				delete(members, name)
				removed = true
			}
			removed = RemoveNulls(members[name], value) || removed
		}
	case []any:
		items, _ := have.([]any)
		for i, item := range PairItems(want, items) {
			removed = RemoveNulls(item, want[i]) || removed
		}
	}
	return removed
}

// WithoutNulls returns an object without the members that are null.
func WithoutNulls(o *object.Object) (*object.Object, error) {
	fields, err := object.Decode(o.JSON())
	if err != nil {
		return nil, err
	}
	withoutNulls(fields)
	return object.Encode(fields)
}
