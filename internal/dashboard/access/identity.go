package access

import (
	"crypto/rand"
	"crypto/subtle"
	"encoding/base64"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// Identity is who makes a request.
type Identity struct {
	User userclient.User
	// CSRF is what forms carry in a field "csrf", or requests in the header
	// X-CSRF-Token. It is another text for each request, so that the size of a page that
	// is compressed tells nothing about it (BREACH); each counts as long as the secret
	// does that is in it.
	CSRF string
	// secret is what all of them have in common.
	secret string
}

func newIdentity(user userclient.User, secret string) *Identity {
	return &Identity{User: user, CSRF: mask(secret), secret: secret}
}

// hasToken reports whether a token has the visitor's secret in it.
func (v *Identity) hasToken(token string) bool {
	given, is := unmask(token)
	return is && v.secret != "" && subtle.ConstantTimeCompare([]byte(given), []byte(v.secret)) == 1
}

// mask hides a secret by a pad that is used once, which goes with it.
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
