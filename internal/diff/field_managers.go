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

// FieldManagers returns the field managers that changed an object between since and until,
// according to its current managedFields. It returns none if a later write hides them. If
// none of the changed fields is managed, it returns the only manager that wrote in that time.
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
			continue // A status writer did not create the object.
		}
		var owned fieldpath.Set
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("read managed fields of %s: %w", entry.Manager, err)
		}
		touched := anyDiffers(&owned, left, right)
		if at := entry.Time; at == nil || at.Add(timeResolution).Before(since) || at.After(until) {
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

// appendUnique appends a name once: a manager may have entries per subresource.
func appendUnique(names []string, name string) []string {
	if slices.Contains(names, name) {
		return names
	}
	return append(names, name)
}

// timeResolution is that of times in managedFields.
const timeResolution = time.Second

func unmarshalBoth(before, after json.RawMessage) (left, right any, err error) {
	for text, into := range map[*json.RawMessage]*any{&before: &left, &after: &right} {
		if len(*text) == 0 {
			continue
		}
		if err := json.Unmarshal(*text, into); err != nil {
			return nil, nil, fmt.Errorf("parse object: %w", err)
		}
	}
	return left, right, nil
}

// anyDiffers reports whether one of the fields differs.
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

// valueAt returns the value at a path; nil for none.
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

// listItem returns the list item that a path element selects.
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

// matchesKey reports whether an item has the values of a key. The default protocol is TCP.
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
