package redact

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"regexp"
	"strconv"
	"strings"
)

// Mask replaces a value where a reader sees it.
const Mask = "••••••"

// A token stands for a value of a Secret. In the data of a Secret it is encoded as the value was. Equal values
// have equal tokens, as long as the process keeps the key.
const (
	tokenPrefix = "setpoint-secret-"
	tokenDigits = 16
)

var (
	plainToken   = regexp.MustCompile(tokenPrefix + `[0-9a-f]{16}`)
	encodedToken = regexp.MustCompile(encodedTokenPattern())
)

// encodedTokenPattern returns the form of a token in the data of a Secret.
func encodedTokenPattern() string {
	whole := base64.StdEncoding.EncodeToString([]byte(tokenPrefix + strings.Repeat("0", tokenDigits)))
	fixed := len(tokenPrefix) / 3 * 4
	digits := strings.TrimRight(whole[fixed:], "=")
	return regexp.QuoteMeta(whole[:fixed]) + `[A-Za-z0-9+/]{` + strconv.Itoa(len(digits)) + `}=*`
}

// Key makes tokens. It is never stored.
type Key [sha256.Size]byte

// NewKey returns a random key.
func NewKey() *Key {
	var key Key
	_, _ = rand.Read(key[:]) // It never fails.
	return &key
}

// Token returns the token of a value.
func (k *Key) Token(value string) string {
	h := hmac.New(sha256.New, k[:])
	h.Write([]byte(value))
	return tokenPrefix + hex.EncodeToString(h.Sum(nil))[:tokenDigits]
}

// HasTokens reports whether a text has a token.
func HasTokens(text string) bool {
	return plainToken.MatchString(text) || encodedToken.MatchString(text)
}

// NewTokens returns the tokens of a response whose values its request does not have, as they are written.
func NewTokens(request, response string) (tokens []string) {
	known := map[string]bool{}
	collectTokens(request, func(_, token string) { known[token] = true })
	collectTokens(response, func(written, token string) {
		if !known[token] {
			known[token] = true
			tokens = append(tokens, written)
		}
	})
	return tokens
}

func collectTokens(text string, found func(written, token string)) {
	for _, token := range plainToken.FindAllString(text, -1) {
		found(token, token)
	}
	for _, written := range encodedToken.FindAllString(text, -1) {
		if token, err := base64.StdEncoding.DecodeString(written); err == nil && plainToken.Match(token) {
			found(written, string(token))
		}
	}
}

// HideTokens replaces all tokens by a text.
func HideTokens(in json.RawMessage, by string) json.RawMessage {
	in = plainToken.ReplaceAllLiteral(in, []byte(by))
	return encodedToken.ReplaceAllFunc(in, func(encoded []byte) []byte {
		if token, err := base64.StdEncoding.DecodeString(string(encoded)); err != nil || !plainToken.Match(token) {
			return encoded
		}
		return []byte(by)
	})
}
