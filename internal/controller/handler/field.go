package handler

import (
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// ParseField parses the path of a field that a handler can watch.
func ParseField(text string) ([]string, error) {
	path, err := object.ParsePath(text)
	if err != nil {
		return nil, err
	}
	if isSystemField(path) {
		return nil, fmt.Errorf("%q never changes or changes with every write; use fields of spec or status, labels or annotations", text)
	}
	return path, nil
}

// isSystemField reports whether the API server maintains a field.
func isSystemField(path []string) bool {
	switch path[0] {
	case "apiVersion", "kind":
		return true
	case "metadata":
		return len(path) == 1 || path[1] != "labels" && path[1] != "annotations" && path[1] != "ownerReferences"
	}
	return false
}
