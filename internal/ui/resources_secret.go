package ui

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/asuser"
)

// unchanged stands for a value of a Secret, which no page shows. It is no base64, so
// that nobody can mean it.
const unchanged = "(unchanged)"

// withoutSecrets is an object without the values of a Secret.
func withoutSecrets(object map[string]any) map[string]any {
	made, _ := asuser.Masked(object, unchanged)
	return made
}

// unmasked are the places where an object wants a value kept that was not there.
func unmasked(before, object map[string]any) []string {
	if !asuser.IsSecret(object) {
		return nil
	}
	var found []string
	for _, part := range []string{"data", "stringData"} {
		values, _ := object[part].(map[string]any)
		known, _ := before[part].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if values[key] == unchanged && known[key] != unchanged {
				found = append(found, part+"["+key+"]")
			}
		}
	}
	return found
}
