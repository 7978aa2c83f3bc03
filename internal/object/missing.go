package object

import (
	"maps"
	"slices"
)

// Missing returns the members of an object, other than nulls, that another one lacks at all depths, and the path of the
// first; nil if there are none. The API server drops members that the schema of a kind does not have.
func Missing(want, have map[string]any) (missing map[string]any, first string) {
	for _, name := range slices.Sorted(maps.Keys(want)) {
		value, path := want[name], name
		there, exists := have[name]
		inner, isObject := value.(map[string]any)
		below, _ := there.(map[string]any)
		switch {
		case value == nil:
			continue
		case exists && isObject && below != nil:
			part, at := Missing(inner, below)
			if part == nil {
				continue
			}
			value, path = part, JoinPath(name, at)
		case exists:
			continue
		}
		if missing == nil {
			missing, first = map[string]any{}, path
		}
		missing[name] = value
	}
	return missing, first
}
