package form

import "reflect"

// Patch returns the JSON merge patch between two objects. Lists are replaced as a whole.
func Patch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range from {
		if _, exists := to[name]; !exists {
			patch[name] = nil
		}
	}
	for name, after := range to {
		before, was := from[name]
		if was && reflect.DeepEqual(before, after) {
			continue
		}
		inner, isObject := after.(map[string]any)
		outer, wasObject := before.(map[string]any)
		if isObject && wasObject {
			patch[name] = Patch(outer, inner)
			continue
		}
		patch[name] = after
	}
	return patch
}
