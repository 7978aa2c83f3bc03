package dashboard

import (
	"maps"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// unchangedValue stands for a value of a Secret, which no page shows. It is no base64, so
// that nobody can mean it.
const unchangedValue = "(unchanged)"

// maskSecrets is an object without the values of a Secret.
func maskSecrets(object map[string]any) map[string]any {
	made, _ := userclient.MaskSecret(object, unchangedValue)
	return made
}

// missingSecretValues are the places where an object wants a value kept that was not there.
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
