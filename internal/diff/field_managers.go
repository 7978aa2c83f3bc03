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

// FieldManagers says who changed an object from what it was to what it is, by the names under
// which the API server notes that in metadata.managedFields, as it is now. Between since and until is when
// that must have been: what was written later says nothing about this change, and
// no name is given rather than a wrong one. Where no field that changed is noted as
// managed, it was the only one who wrote the object in that time.
func FieldManagers(managed, before, after json.RawMessage, since, until time.Time) ([]string, error) {
	var entries []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(managed, &entries); err != nil {
		return nil, fmt.Errorf("read metadata.managedFields: %w", err)
	}
	left, right, err := unmarshalBoth(before, after)
	if err != nil {
		return nil, err
	}
	var certain, possible []string
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
		touched := anyDiffers(&owned, left, right)
		if !isWithin(entry.Time, since, until) {
			managedByOthers = managedByOthers || touched
			continue
		}
		possible = appendUnique(possible, entry.Manager)
		if touched {
			certain = appendUnique(certain, entry.Manager)
		}
	}
	if len(certain) == 0 && len(possible) == 1 && !managedByOthers {
		return possible, nil
	}
	return certain, nil
}

// appendUnique has each name once: who writes a status has an entry of its own for that.
func appendUnique(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// timeResolution is how exactly the API server notes times.
const timeResolution = time.Second

func isWithin(at *metav1.Time, since, until time.Time) bool {
	return at != nil && !at.Add(timeResolution).Before(since) && !at.After(until)
}

func unmarshalBoth(before, after json.RawMessage) (left, right any, err error) {
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

// anyDiffers says that one of these fields differs.
func anyDiffers(owned *fieldpath.Set, before, after any) bool {
	found := false
	owned.Leaves().Iterate(func(path fieldpath.Path) {
		found = found || !equalJSON(valueAt(before, path), valueAt(after, path))
	})
	return found
}

func equalJSON(a, b any) bool {
	left, errLeft := json.Marshal(a)
	right, errRight := json.Marshal(b)
	return errLeft == nil && errRight == nil && bytes.Equal(left, right)
}

// valueAt is the value at a path; nil for none.
func valueAt(value any, path fieldpath.Path) any {
	for _, element := range path {
		switch {
		case element.FieldName != nil:
			members, _ := value.(map[string]any)
			value = members[*element.FieldName]
		default:
			value = listItem(value, element)
		}
	}
	return value
}

// listItem is the item of a list that a path means.
func listItem(list any, element fieldpath.PathElement) any {
	items, _ := list.([]any)
	for i, each := range items {
		switch {
		case element.Key != nil && matchesKey(each, element), element.Value != nil && equalJSON(each, (*element.Value).Unstructured()),
			element.Index != nil && *element.Index == i:
			return each
		}
	}
	return nil
}

// matchesKey says that an item has the values of a key. A protocol that is not given is
// TCP, as the API has it.
func matchesKey(value any, element fieldpath.PathElement) bool {
	members, isObject := value.(map[string]any)
	if !isObject {
		return false
	}
	for _, change := range *element.Key {
		has, given := members[change.Name]
		if want := change.Value.Unstructured(); !equalJSON(has, want) && (given || want != "TCP") {
			return false
		}
	}
	return true
}
