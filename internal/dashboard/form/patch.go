package form

import (
	"maps"
	"reflect"
)

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

// Apply applies a merge patch to a copy of an object.
func Apply(object, patch map[string]any) map[string]any {
	made := maps.Clone(object)
	if made == nil {
		made = map[string]any{}
	}
	for name, after := range patch {
		inner, isObject := after.(map[string]any)
		before, _ := made[name].(map[string]any)
		switch {
		case after == nil:
			delete(made, name)
		case isObject:
			made[name] = Apply(before, inner)
		default:
			made[name] = after
		}
	}
	return made
}
