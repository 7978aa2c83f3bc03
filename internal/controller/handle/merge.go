package handle

import "maps"

// mergePatch returns an object with a JSON merge patch applied.
func mergePatch(target, patch map[string]any) map[string]any {
	result := maps.Clone(target)
	if result == nil {
		result = map[string]any{}
	}
	for name, value := range patch {
		below, isObject := value.(map[string]any)
		switch {
		case value == nil:
			delete(result, name)
		case isObject:
			here, _ := result[name].(map[string]any)
			result[name] = mergePatch(here, below)
		default:
			result[name] = value
		}
	}
	return result
}

// combinePatches returns one patch that has the effect of two.
func combinePatches(first, second map[string]any) map[string]any {
	result := maps.Clone(first)
	if result == nil {
		result = map[string]any{}
	}
	for name, value := range second {
		here, wasObject := result[name].(map[string]any)
		below, isObject := value.(map[string]any)
		if wasObject && isObject {
			value = combinePatches(here, below)
		}
		result[name] = value
	}
	return result
}
