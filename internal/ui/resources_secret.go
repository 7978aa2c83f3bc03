package ui

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/ui/form"
)

// unchanged stands for a value of a Secret, which no page shows. It is no base64, so
// that nobody can mean it.
const unchanged = "(unchanged)"

// lastApplied is where kubectl keeps all that it applied, values of Secrets too.
const lastApplied = "kubectl.kubernetes.io/last-applied-configuration"

// hidden are the parts of a Secret that nobody sees.
var hidden = []string{"data", "stringData"}

func isSecret(object map[string]any) bool {
	return object["kind"] == "Secret" && object["apiVersion"] == "v1"
}

// withoutSecrets is an object without the values of a Secret.
func withoutSecrets(object map[string]any) map[string]any {
	if !isSecret(object) {
		return object
	}
	made := maps.Clone(object)
	for _, part := range hidden {
		values, _ := object[part].(map[string]any)
		if values != nil {
			made[part] = blanked(values)
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	if _, is := annotations[lastApplied]; is {
		made = form.Apply(made, map[string]any{"metadata": map[string]any{"annotations": map[string]any{lastApplied: unchanged}}})
	}
	return made
}

func blanked(values map[string]any) map[string]any {
	made := map[string]any{}
	for key := range values {
		made[key] = unchanged
	}
	return made
}

// unmasked are the places where an object wants a value kept that was not there.
func unmasked(before, object map[string]any) []string {
	if !isSecret(object) {
		return nil
	}
	var found []string
	for _, part := range hidden {
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
