package dashboard

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// unchangedValue replaces the values of Secrets. It is invalid base64, so it cannot be a value.
const unchangedValue = "(unchanged)"

// maskSecrets hides the values of a Secret.
func maskSecrets(object map[string]any) map[string]any {
	made, _ := userclient.MaskSecret(object, unchangedValue)
	return made
}

// missingSecretValues returns the paths that keep a value which does not exist.
func missingSecretValues(before, object map[string]any) []string {
	if !userclient.IsSecret(object) {
		return nil
	}
	var found []string
	for _, part := range []string{"data", "stringData"} {
		values, _ := object[part].(map[string]any)
		known, _ := before[part].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if values[key] == unchangedValue && known[key] != unchangedValue {
				found = append(found, part+"["+key+"]")
			}
		}
	}
	return found
}
