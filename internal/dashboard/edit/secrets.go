package edit

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"maps"
	"slices"

	"k8s.io/apimachinery/pkg/runtime"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// unchangedValue replaces the values of Secrets. It is invalid base64, so it cannot be a value.
const unchangedValue = "(unchanged)"

func replaceSecretValues(entered map[string]any, text func(path string, value any) string) map[string]any {
	if !object.IsSecret(entered) {
		return entered
	}
	masked := runtime.DeepCopyJSON(entered)
	redact.ReplaceSecret(masked, text)
	return masked
}

// missingSecretValues returns the paths that keep a value which does not exist.
func missingSecretValues(before, entered map[string]any) []string {
	if !object.IsSecret(entered) {
		return nil
	}
	var found []string
	for _, part := range []string{"data", "stringData"} {
		values, _ := entered[part].(map[string]any)
		known, _ := before[part].(map[string]any)
		for _, key := range slices.Sorted(maps.Keys(values)) {
			if values[key] == unchangedValue && known[key] != unchangedValue {
				found = append(found, part+"["+key+"]")
			}
		}
	}
	return found
}

// secretDigester is the key of digests, which never leaves the process.
type secretDigester string

func newSecretDigester() secretDigester { return secretDigester(rand.Text()) }

func (s secretDigester) sum(value any) string {
	mac := hmac.New(sha256.New, []byte(s))
	_ = json.NewEncoder(mac).Encode(value) //nolint:errchkjson // It was JSON before.
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
