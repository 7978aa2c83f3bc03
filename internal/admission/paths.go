package admission

import (
	"cmp"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"hash/fnv"
	"path"
	"strings"

	"k8s.io/apimachinery/pkg/util/validation"
)

// The paths of webhooks. Configurations have them with a token: see PathKey. API servers
// accept paths whose segments are DNS names.

// AdmitPath is the path of a webhook.
func (p *Program) AdmitPath(webhook string) string {
	return "/admit/" + PathSegment(p.configuration()) + "/" + PathSegment(webhook)
}

// ProbePath is the path of the probe.
func (p *Program) ProbePath() string { return "/probe/" + PathSegment(p.configuration()) }

func (p *Program) configuration() string { return cmp.Or(p.Configuration, p.Name) }

// ProbeWarning identifies the response of a probe, which the probe alone receives.
const ProbeWarning = "setpoint received the request"

// PathSegment returns a name as a path segment: itself if it is valid, or a valid prefix
// with a digest.
func PathSegment(name string) string {
	if len(validation.IsDNS1123Subdomain(name)) == 0 {
		return name
	}
	return strings.TrimLeft(sanitizeName(name)+"-"+Digest(name), "-")
}

// sanitizeName replaces invalid characters by dashes.
func sanitizeName(name string) string {
	plain := strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, strings.ToLower(name))
	return plain[:min(len(plain), 50)]
}

// Digest is a short hash.
func Digest(text string) string {
	sum := fnv.New64a()
	_, _ = sum.Write([]byte(text)) // A hash takes everything.
	return fmt.Sprintf("%016x", sum.Sum64())
}

// PathKey makes webhook paths unguessable: each ends with a token, an HMAC of the path.
// All replicas have the same key, stored with the certificates. An empty key adds no
// token.
type PathKey string

// NewPathKey returns a random key.
func NewPathKey() PathKey { return PathKey(rand.Text()) }

// AddToken adds the token to a path.
func (k PathKey) AddToken(plain string) string {
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

// PathKeys are the key of registered paths, and previous keys that configurations may
// still use.
type PathKeys struct {
	Key      PathKey
	Previous []PathKey
}

// StripToken returns the path without its token; false if it is invalid for all keys.
func (k PathKeys) StripToken(keyed string) (string, bool) {
	plain, token := path.Dir(keyed), path.Base(keyed)
	for _, key := range append([]PathKey{k.Key}, k.Previous...) {
		switch {
		case key == "":
			return keyed, true
		case hmac.Equal([]byte(token), []byte(key.token(plain))):
			return plain, true
		}
	}
	return "", false
}
