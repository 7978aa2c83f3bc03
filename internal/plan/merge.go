package plan

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// merger is a three-way merge of the observed, the last applied and the desired object. It follows
// the rules of Metacontroller's apply:
//
//   - A desired field is set. A field that was applied and is no longer desired is removed. Other
//     fields stay.
//   - Objects are merged by member.
//   - Lists of objects with a key are merged by item, in the observed order, with new items at the
//     end.
//   - Other lists are replaced.
//
// It deviates where these rules would never converge: items with the same key are identified by
// more fields, and a list without keys is merged by index as long as its desired value is
// unchanged, so that values that the server sets do not count as differences.
//
// The inputs are JSON values without nulls in objects. They are not changed, and the result may
// share parts of them.
type merger struct {
	// keys are the possible keys of list items, the best first.
	keys []object.ItemKey
	// ignoreEmpty ignores an empty value (false, 0, "", [], {}) that was applied before and is
	// absent: the server dropped it.
	ignoreEmpty bool
	// valuesOmitted means that only the field set of what was applied is known.
	valuesOmitted bool
}

func (m merger) merge(observed, applied, desired any) any {
	switch want := desired.(type) {
	case map[string]any:
		have, ok := observed.(map[string]any)
		if !ok {
			return want
		}
		last, _ := applied.(map[string]any)
		return m.objects(have, last, want)
	case []any:
		have, ok := observed.([]any)
		if !ok {
			return want
		}
		last, _ := applied.([]any)
		return m.lists(have, last, want)
	}
	return desired
}

func (m merger) objects(observed, applied, desired map[string]any) map[string]any {
	merged := make(map[string]any, len(observed)+len(desired))
	for name, value := range observed {
		_, wasApplied := applied[name]
		_, isDesired := desired[name]
		if isDesired || !wasApplied {
			merged[name] = value
		}
	}
	for name, value := range desired {
		have, exists := observed[name]
		last, wasApplied := applied[name]
		switch {
		case exists:
			merged[name] = m.merge(have, last, value)
		case m.ignoreEmpty && wasApplied && isEmptyValue(value) && isEmptyValue(last):
		default:
			merged[name] = value
		}
	}
	return merged
}

// isEmptyValue reports whether a server may omit a value when it stores an object.
func isEmptyValue(value any) bool {
	switch v := value.(type) {
	case map[string]any:
		return len(v) == 0
	case []any:
		return len(v) == 0
	case string:
		return v == ""
	case bool:
		return !v
	}
	n, isNumber := object.Number(value)
	return isNumber && n == 0
}

func (m merger) lists(observed, applied, desired []any) []any {
	hasKeys := false
	for _, key := range m.keys {
		want, fits := key.Index(desired)
		if !fits {
			continue
		}
		hasKeys = true
		have, fits := key.Index(observed)
		last, fitsToo := key.Index(applied)
		if fits && fitsToo {
			return m.byKey(have, last, want)
		}
	}
	if !hasKeys && len(observed) == len(desired) && m.unchanged(applied, desired) {
		return m.byPosition(observed, applied, desired)
	}
	return desired
}

// unchanged reports whether the desired list is the same as before. With field sets only, values
// may have changed, which a merge by index sets as well.
func (m merger) unchanged(applied, desired []any) bool {
	if m.valuesOmitted {
		desired = listFieldSet(desired)
	}
	return object.FirstDifference(applied, desired) == ""
}

// byKey merges lists whose items have a key.
func (m merger) byKey(observed, applied, desired object.Items) []any {
	merged := make([]any, 0, max(len(observed.Order), len(desired.Order)))
	for _, id := range observed.Order {
		item := observed.ByID[id]
		want, isDesired := desired.ByID[id]
		last, wasApplied := applied.ByID[id]
		switch {
		case isDesired:
			merged = append(merged, m.merge(item, last, want))
		case !wasApplied:
			merged = append(merged, item)
		}
	}
	for _, id := range desired.Order {
		if _, known := observed.ByID[id]; !known {
			merged = append(merged, desired.ByID[id])
		}
	}
	return merged
}

// byPosition merges lists of the same length by index.
func (m merger) byPosition(observed, applied, desired []any) []any {
	merged := make([]any, len(desired))
	for i := range desired {
		merged[i] = m.merge(observed[i], applied[i], desired[i])
	}
	return merged
}

// PairItems returns for each item of a list the desired item that is the same one by its key, or nil.
// Lists whose items have no key in common are paired by index.
func PairItems(have, want []any) []any {
	pairs := make([]any, len(have))
	for _, key := range object.ChildKeys {
		observed, fits := key.Index(have)
		desired, fitsToo := key.Index(want)
		if !fits || !fitsToo {
			continue
		}
		for i, id := range observed.Order {
			pairs[i] = desired.ByID[id]
		}
		return pairs
	}
	copy(pairs, want)
	return pairs
}

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
