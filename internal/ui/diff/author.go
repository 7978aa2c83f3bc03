package diff

import (
	"bytes"
	"encoding/json"
	"fmt"
	"time"

	"sigs.k8s.io/structured-merge-diff/v6/fieldpath"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Author is who changed an object, by the name under which the API server notes it.
type Author struct {
	Manager     string
	Operation   string
	Subresource string
	Time        time.Time
	// Sure says that a field that changed is noted as the author's. Otherwise it is
	// the only one who wrote the object in that time.
	Sure bool
}

// Authors says who changed an object from what it was to what it is, by the
// metadata.managedFields of the object as it is now. Between since and until is when
// that must have been: what was written later says nothing about this change, and
// nobody is named rather than somebody else.
func Authors(managed, before, after json.RawMessage, since, until time.Time) ([]Author, error) {
	var entries []metav1.ManagedFieldsEntry
	if err := json.Unmarshal(managed, &entries); err != nil {
		return nil, fmt.Errorf("read metadata.managedFields: %w", err)
	}
	left, right, err := trees(before, after)
	if err != nil {
		return nil, err
	}
	var sure, perhaps []Author
	for _, entry := range entries {
		if !within(entry.Time, since, until) || entry.FieldsV1 == nil {
			continue
		}
		author := Author{Manager: entry.Manager, Operation: string(entry.Operation), Subresource: entry.Subresource, Time: entry.Time.Time}
		perhaps = append(perhaps, author)
		var owned fieldpath.Set
		if err := owned.FromJSON(entry.FieldsV1.GetRawReader()); err != nil {
			return nil, fmt.Errorf("read what %s manages: %w", entry.Manager, err)
		}
		if touches(&owned, left, right) {
			author.Sure = true
			sure = append(sure, author)
		}
	}
	if len(sure) == 0 && len(perhaps) == 1 {
		return perhaps, nil
	}
	return sure, nil
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
