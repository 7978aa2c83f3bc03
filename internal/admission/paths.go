package admission

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"path"
)

// PathKey makes the paths unguessable by which the API server asks: each ends in a
// token that is made of the key and the rest of it. All replicas have the same, kept
// with the certificates. An empty key leaves the paths as they are.
type PathKey string

func newPathKey() PathKey { return PathKey(rand.Text()) }

// addToken is a path with its token.
func (k PathKey) addToken(plain string) string {
	if k == "" {
		return plain
	}
	return plain + "/" + k.token(plain)
}

// tokenSize is the size of a token in bytes, before it is written as a name of DNS.
const tokenSize = 16

func (k PathKey) token(plain string) string {
	mac := hmac.New(sha256.New, []byte(k))
	_, _ = mac.Write([]byte(plain)) // A hash takes everything.
	return hex.EncodeToString(mac.Sum(nil)[:tokenSize])
}

// stripToken is a keyed path without its token; false if the token is none of this key.
func (k PathKey) stripToken(keyed string) (string, bool) {
	if k == "" {
		return keyed, true
	}
	plain, token := path.Dir(keyed), path.Base(keyed)
	return plain, hmac.Equal([]byte(token), []byte(k.token(plain)))
}

// PathKeys are the key of the paths that are registered, and one that configurations may
// still carry.
type PathKeys struct {
	Key      PathKey
	Previous []PathKey
}

// stripToken is a path without its token; false if the token is of none of the keys.
func (k PathKeys) stripToken(keyed string) (string, bool) {
	for _, key := range append([]PathKey{k.Key}, k.Previous...) {
		if plain, ours := key.stripToken(keyed); ours {
			return plain, true
		}
	}
	return "", false
}
