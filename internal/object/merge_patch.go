package object

import "maps"

// MergePatch returns an object with a JSON merge patch applied. It shares the values of both.
func MergePatch(target, patch map[string]any) map[string]any {
	result := cloneMembers(target)
	for name, value := range patch {
		below, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case isObject:
			here, _ := result[name].(map[string]any)
			result[name] = MergePatch(here, below)
		default:
			result[name] = value
		}
	}
	return result
}

// CombinePatches returns one merge patch that has the effect of two.
func CombinePatches(first, second map[string]any) map[string]any {
	result := cloneMembers(first)
	for name, value := range second {
		here, wasObject := result[name].(map[string]any)
		below, isObject := value.(map[string]any)
		if wasObject && isObject {
			value = CombinePatches(here, below)
		}
		result[name] = value
	}
	return result
}

// cloneMembers returns a shallow copy that is never nil.
func cloneMembers(members map[string]any) map[string]any {
	if members == nil {
		return map[string]any{}
	}
	return maps.Clone(members)
}
