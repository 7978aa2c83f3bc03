package admission

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"path"
)

// PathKey makes webhook paths unguessable: each ends with a token, an HMAC of the path.
// All replicas have the same key, stored with the certificates. An empty key adds no
// token.
type PathKey string

func newPathKey() PathKey { return PathKey(rand.Text()) }

func (k PathKey) addToken(plain string) string {
	if k == "" {
		return plain
	}
	return plain + "/" + k.token(plain)
}

// tokenSize is the size of a token in bytes before encoding.
const tokenSize = 16

func (k PathKey) token(plain string) string {
	mac := hmac.New(sha256.New, []byte(k))
	_, _ = mac.Write([]byte(plain)) // A hash takes everything.
	return hex.EncodeToString(mac.Sum(nil)[:tokenSize])
}

// stripToken returns the path without its token; false if the token is invalid.
func (k PathKey) stripToken(keyed string) (string, bool) {
	if k == "" {
		return keyed, true
	}
	plain, token := path.Dir(keyed), path.Base(keyed)
	return plain, hmac.Equal([]byte(token), []byte(k.token(plain)))
}

// PathKeys are the key of registered paths, and previous keys that configurations may
// still use.
type PathKeys struct {
	Key      PathKey
	Previous []PathKey
}

// stripToken returns the path without its token; false if it is invalid for all keys.
func (k PathKeys) stripToken(keyed string) (string, bool) {
	for _, key := range append([]PathKey{k.Key}, k.Previous...) {
		if plain, ours := key.stripToken(keyed); ours {
			return plain, true
		}
	}
	return "", false
}
