package access

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// Identity is an authenticated user.
type Identity struct {
	User userclient.User
	// CSRF is the token that forms send in the field "csrf" and requests in the header
	// X-CSRF-Token. It differs in each response, so that the size of compressed pages does not
	// reveal it (BREACH), and is valid as long as its secret.
	CSRF string
	// secret is in all tokens.
	secret string
}

func newIdentity(user userclient.User, secret string) *Identity {
	return &Identity{User: user, CSRF: mask(secret), secret: secret}
}

// hasToken reports whether a token contains the secret.
func (v *Identity) hasToken(token string) bool {
	given, is := unmask(token)
	return is && v.secret != "" && subtle.ConstantTimeCompare([]byte(given), []byte(v.secret)) == 1
}

// mask encrypts a secret with a one-time pad, which it includes.
func mask(secret string) string {
	both := make([]byte, 2*len(secret))
	pad, hidden := both[:len(secret)], both[len(secret):]
	_, _ = rand.Read(pad) // It never returns an error.
	subtle.XORBytes(hidden, pad, []byte(secret))
	return base64.RawURLEncoding.EncodeToString(both)
}

func unmask(token string) (secret string, is bool) {
	both, err := base64.RawURLEncoding.DecodeString(token)
	if err != nil || len(both)%2 != 0 {
		return "", false
	}
	pad, hidden := both[:len(both)/2], both[len(both)/2:]
	subtle.XORBytes(hidden, hidden, pad)
	return string(hidden), true
}
