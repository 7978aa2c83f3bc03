package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// secretDigester computes digests with a key that never leaves the process.
type secretDigester struct {
	key []byte
	// prefix starts all digests. It identifies the key without revealing it.
	prefix string
}

// digestPrefix starts the digests of all processes. With a brace, an annotation counts as one that
// may hold a copy.
const digestPrefix = "{digest "

func newSecretDigester() *secretDigester {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // It never returns an error.
	return &secretDigester{key, digestPrefix + rand.Text() + " "}
}

// digest replaces the values of a Secret with digests, which depend on the UID and the path. A
// page carries them instead of the values, to detect concurrent changes.
func (s *secretDigester) digest(uid string, entered map[string]any) map[string]any {
	return replaceSecretValues(entered, func(path string, value any) string {
		mac := hmac.New(sha256.New, s.key)
		_ = json.NewEncoder(mac).Encode([]any{uid, path, value}) //nolint:errchkjson // It was JSON before.
		return s.prefix + base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
	})
}

// hideDigests replaces the digests in changes by words. Digests of another process cannot be
// compared, so they count as a possible change.
func (s *secretDigester) hideDigests(changes []model.Change) []model.Change {
	for i := range changes {
		c := &changes[i]
		before, after := string(c.From), string(c.To)
		isDigest := func(text string) bool { return strings.HasPrefix(text, `"`+digestPrefix) }
		if isDigest(before) {
			c.From = json.RawMessage(`"(not shown)"`)
		}
		switch {
		case !isDigest(after):
		case !isDigest(before):
			c.To = json.RawMessage(`"(not shown)"`)
		case strings.HasPrefix(before, `"`+s.prefix):
			c.To = json.RawMessage(`"(changed, not shown)"`)
		default:
			c.To = json.RawMessage(`"(may have changed)"`)
		}
	}
	return changes
}
