package setpoint

import (
	"fmt"
	"slices"
	"strings"
)

// parsePath reads a field path: names with dots between them, and in brackets and
// quotes those that have dots themselves, as in metadata.labels["example.com/x"].
func parsePath(text string) ([]string, error) {
	var names []string
	rest := text
	for rest != "" {
		var name string
		if quoted, ok := strings.CutPrefix(rest, `["`); ok && len(names) > 0 {
			if name, rest, ok = strings.Cut(quoted, `"]`); !ok {
				return nil, fmt.Errorf(`the field path %q lacks a closing "]`, text)
			}
		} else {
			end := strings.IndexAny(rest, ".[")
			if end < 0 {
				end = len(rest)
			}
			name, rest = rest[:end], rest[end:]
		}
		names = append(names, name)
		if next, ok := strings.CutPrefix(rest, "."); ok && next != "" {
			rest = next
		} else if rest != "" && !strings.HasPrefix(rest, `["`) {
			return nil, fmt.Errorf(`the field path %q: %q is no name; items of lists have no path of their own, and names with dots go in ["…"]`, text, rest)
		}
	}
	if len(names) == 0 || slices.Contains(names, "") {
		return nil, fmt.Errorf("%q is no field path; an example is spec.template", text)
	}
	return names, nil
}
