package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/dashboard/form"
	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// secretDigester computes digests with a key that never leaves the process.
type secretDigester struct {
	key []byte
	// keyID identifies the key without revealing it.
	keyID string
}

func newSecretDigester() *secretDigester {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // It never returns an error.
	return &secretDigester{key, rand.Text()}
}

// secretDigests are digests of hidden values by path. A page carries them instead of the
// values, to detect concurrent changes.
type secretDigests map[string]string

// keyIDEntry is the path of the key ID; no path of an object is empty.
const keyIDEntry = ""

// digest returns the digests of the hidden values of an object. They depend on the UID and the
// path.
func (s *secretDigester) digest(uid string, object, shown map[string]any) secretDigests {
	made := secretDigests{}
	s.add(made, uid, "", object, shown)
	if len(made) > 0 {
		made[keyIDEntry] = s.keyID
	}
	return made
}

func (s *secretDigester) add(to secretDigests, uid, path string, value, shown any) {
	if reflect.DeepEqual(value, shown) {
		return
	}
	members, are := value.(map[string]any)
	showing, too := shown.(map[string]any)
	if !are || !too {
		mac := hmac.New(sha256.New, s.key)
		_ = json.NewEncoder(mac).Encode([]any{uid, path, value}) //nolint:errchkjson // It was JSON before.
		to[path] = base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
		return
	}
	for name, member := range members {
		at := name
		if path != "" {
			at = path + "[" + name + "]"
		}
		s.add(to, uid, at, member, showing[name])
	}
}

// String returns the digests as JSON; "" for none.
func (s secretDigests) String() string {
	if len(s) == 0 {
		return ""
	}
	data, _ := json.Marshal(s) //nolint:errchkjson // Text can always be encoded.
	return string(data)
}

func parseSecretDigests(text string) (secretDigests, error) {
	if text == "" {
		return secretDigests{}, nil
	}
	if err := object.LimitValues([]byte(text), form.MaxValues); err != nil {
		return nil, fmt.Errorf("decode secret digests: %w", err)
	}
	var read secretDigests
	if err := json.Unmarshal([]byte(text), &read); err != nil {
		return nil, fmt.Errorf("decode secret digests: %w", err)
	}
	return read, nil
}

// changes returns the hidden values that changed. Added and removed values are visible without
// digests. Digests of another process cannot be compared, so they count as a possible change.
func (s secretDigests) changes(after secretDigests) []model.Change {
	var found []model.Change
	if len(s) > 0 && len(after) > 0 && s[keyIDEntry] != after[keyIDEntry] {
		return []model.Change{{
			Path: "hidden values", From: json.RawMessage(`"(not shown)"`), To: json.RawMessage(`"(may have changed)"`),
		}}
	}
	for _, path := range slices.Sorted(maps.Keys(after)) {
		if before := s[path]; before != "" && before != after[path] {
			found = append(found, model.Change{
				Path: path, From: json.RawMessage(`"(not shown)"`), To: json.RawMessage(`"(changed, not shown)"`),
			})
		}
	}
	return found
}
