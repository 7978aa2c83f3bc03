package model

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/redact"
)

// FindReplaced returns the path of a value that the history has replaced: masked, because it is of a Secret, or
// hidden, because the reader may not get its object; "" for none. Such a value must not be written.
func FindReplaced(value any) string { return strings.TrimPrefix(findReplaced("", value), ".") }

func findReplaced(path string, value any) string {
	switch inner := value.(type) {
	case string:
		if strings.Contains(inner, redact.Mask) {
			return path
		}
	case []any:
		for i, each := range inner {
			if at := findReplaced(fmt.Sprintf("%s[%d]", path, i), each); at != "" {
				return at
			}
		}
	case map[string]any:
		if inner["hidden"] == redacted {
			return path
		}
		for _, name := range slices.Sorted(maps.Keys(inner)) {
			if at := findReplaced(path+"."+name, inner[name]); at != "" {
				return at
			}
		}
	}
	return ""
}
