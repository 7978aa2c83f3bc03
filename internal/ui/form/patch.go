package form

// Patch is the JSON merge patch that makes one object of another: what was changed,
// with null for what was taken away. Lists are changed as a whole.
func Patch(from, to map[string]any) map[string]any {
	patch := map[string]any{}
	for name := range from {
		if _, kept := to[name]; !kept {
			patch[name] = nil
		}
	}
	for name, after := range to {
		before, was := from[name]
		if was && Equal(before, after) {
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
