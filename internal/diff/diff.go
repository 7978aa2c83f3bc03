// Package diff shows people how two things differ: two objects by fields, two hook requests
// by objects, two texts by lines; and which field manager changed a field.
//
// Its functions are pure, on JSON and text, and bounded, since their input is untrusted. It
// contains no HTTP, no HTML and no requests to the API server.
package diff

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// MaxBytes limits each side. The API server accepts objects of up to 3 MiB.
const MaxBytes = 4 << 20

// Objects returns the fields in which two objects differ; either may be empty. The spec comes
// first, the status last. Fields that change with every write are omitted, and values of
// Secrets are masked.
func Objects(before, after json.RawMessage) ([]inspect.Change, error) {
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
		return nil, nil //nolint:nilnil // There is no object.
	case len(text) > MaxBytes:
		return nil, fmt.Errorf("compare objects: one is larger than %d MiB", MaxBytes>>20)
	}
	o, err := object.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("compare objects: %w", err)
	}
	return o, nil
}

func fieldChanges(before, after *object.Object) ([]inspect.Change, error) {
	changes, err := plan.Compare(before, after)
	if err != nil {
		return nil, err
	}
	slices.SortStableFunc(changes, func(a, b inspect.Change) int {
		return cmp.Compare(sectionOrder(a.Path), sectionOrder(b.Path))
	})
	return changes, nil
}

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
