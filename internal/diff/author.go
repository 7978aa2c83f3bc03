package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Authors says who changed an object from what it was to what it is, by the names under
// which the API server notes that in metadata.managedFields, as it is now. Between since and until is when
// that must have been: what was written later says nothing about this change, and
// no name is given rather than a wrong one. Where no field that changed is noted as
// managed, it was the only one who wrote the object in that time.
func Authors(managed, before, after json.RawMessage, since, until time.Time) ([]string, error) {
	var entries []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(managed, &entries); err != nil {
		return nil, fmt.Errorf("read metadata.managedFields: %w", err)
	}
	left, right, err := trees(before, after)
	if err != nil {
		return nil, err
	}
	var sure, perhaps []string
	managedByOthers := false
	for _, entry := range entries {
		if entry.Time == nil || entry.FieldsV1 == nil {
			continue
		}
		if len(before) == 0 && entry.Subresource != "" {
			continue // Who writes a status has not created the object.
		}
		var owned fieldpath.Set
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("read what %s manages: %w", entry.Manager, err)
		}
		touched := touches(&owned, left, right)
		if !within(entry.Time, since, until) {
			managedByOthers = managedByOthers || touched
			continue
		}
		perhaps = with(perhaps, entry.Manager)
		if touched {
			sure = with(sure, entry.Manager)
		}
	}
	if len(sure) == 0 && len(perhaps) == 1 && !managedByOthers {
		return perhaps, nil
	}
	return sure, nil
}

// with has each name once: who writes a status has an entry of its own for that.
func with(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// grain is how exactly the API server notes times.
const grain = time.Second

func within(at *metav1.Time, since, until time.Time) bool {
	return at != nil && !at.Add(grain).Before(since) && !at.After(until)
}

func trees(before, after json.RawMessage) (left, right any, err error) {
	for text, into := range map[*json.RawMessage]*any{&before: &left, &after: &right} {
		if len(*text) == 0 {
			continue
		}
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, nil, fmt.Errorf("read an object: %w", err)
		}
	}
	return left, right, nil
}

// touches says that one of these fields differs.
func touches(owned *fieldpath.Set, before, after any) bool {
	found := false
	owned.Leaves().Iterate(func(path fieldpath.Path) {
		found = found || !same(at(before, path), at(after, path))
	})
	return found
}

func same(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}

// at is the value at a path; nil for none.
func at(value any, path fieldpath.Path) any {
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			members, _ := value.(map[string]any)
			value = members[*element.FieldName]
		default:
			value = item(value, element)
		}
	}
	return value
}

// item is the item of a list that a path means.
func item(list any, element fieldpath.PathElement) any {
	items, _ := list.([]any)
	for i, each := range items {
		switch {
		case element.Key != nil && keyed(each, element), element.Value != nil && same(each, (*element.Value).Unstructured()),
			element.Index != nil && *element.Index == i:
			return each
		}
	}
	return nil
}

// keyed says that an item has the values of a key. A protocol that is not given is
// TCP, as the API has it.
func keyed(value any, element fieldpath.PathElement) bool {
	members, isObject := value.(map[string]any)
	if !isObject {
		return false
	}
	for _, part := range *element.Key {
		has, given := members[part.Name]
		if want := part.Value.Unstructured(); !same(has, want) && (given || want != "TCP") {
			return false
		}
	}
	return true
}
