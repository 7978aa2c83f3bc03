package dashboard

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
)

// secretDigester computes digests with a key that never leaves the process.
type secretDigester struct{ key []byte }

func newSecretDigester() *secretDigester {
	key := make([]byte, 32)
	_, _ = rand.Read(key) // It never returns an error.
	return &secretDigester{key}
}

// digest replaces the values of a Secret with digests, which depend on the UID and the path. A
// page carries them instead of the values, to detect concurrent changes. With a brace, an
// annotation still counts as one that may hold a copy.
func (s *secretDigester) digest(uid string, entered map[string]any) map[string]any {
	return replaceSecretValues(entered, func(path string, value any) string {
		return "{digest " + s.sum([]any{uid, path, value}) + "}"
	})
}

// sum returns the digest of a value.
func (s *secretDigester) sum(value any) string {
	mac := hmac.New(sha256.New, s.key)
	_ = json.NewEncoder(mac).Encode(value) //nolint:errchkjson // It was JSON before.
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil)[:16])
}
