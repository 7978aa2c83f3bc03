// Package diff says in what two things differ, for people: two objects by their
// fields, two requests to a hook by the objects in them, two texts by their lines;
// and who changed a field, as far as the API server noted it.
//
// Here live pure functions on JSON and text, all of them bounded: what is compared
// may come from anybody. What must not: HTTP, HTML, requests to the API server. The
// pages of ui call it.
package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// MaxBytes is how large what is compared may be, each side. The API server takes
// objects of 3 MiB at the most.
const MaxBytes = 4 << 20

// Objects says in which fields two objects differ; either may be empty. What the
// user meant comes first: the spec before metadata, the status last. Fields that
// change with every write are left out, and the values of a Secret are masked.
func Objects(before, after json.RawMessage) ([]model.Change, error) {
	left, err := parseObject(before)
	if err != nil {
		return nil, err
	}
	right, err := parseObject(after)
	if err != nil {
		return nil, err
	}
	return fieldChanges(left, right)
}

func parseObject(text json.RawMessage) (*object.Object, error) {
	text = bytes.TrimSpace(text)
	switch {
	case len(text) == 0 || bytes.Equal(text, []byte("null")):
		return nil, nil //nolint:nilnil // No object is what there is.
	case len(text) > MaxBytes:
		return nil, fmt.Errorf("compare objects: one is larger than %d MiB", MaxBytes>>20)
	}
	o, err := object.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("compare objects: %w", err)
	}
	return o, nil
}

func fieldChanges(before, after *object.Object) ([]model.Change, error) {
	found, err := plan.Compare(before, after)
	if err != nil {
		return nil, err
	}
	changes := make([]model.Change, 0, len(found))
	for _, c := range found {
		changes = append(changes, model.Change{Path: c.Path, From: c.From, To: c.To})
	}
	slices.SortStableFunc(changes, func(a, b model.Change) int {
		return cmp.Compare(sectionOrder(a.Path), sectionOrder(b.Path))
	})
	return changes, nil
}

// sectionOrder is how late a field is told of.
func sectionOrder(path string) int {
	switch first := path[:len(path)-len(strings.TrimLeftFunc(path, isLetter))]; first {
	case "metadata":
		return 1
	case "status":
		return 2
	}
	return 0
}

func isLetter(r rune) bool { return r != '.' && r != '[' }
