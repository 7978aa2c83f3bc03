package access

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net"
	"net/http"
	"time"
)

const (
	// maxSessions and maxSessionsPerUser limit the sessions. The session that was idle longest
	// is evicted first.
	maxSessions        = 1000
	maxSessionsPerUser = 20
	// idleTimeout is how long an idle session lasts, sweepEvery how often expired sessions are
	// removed.
	idleTimeout = 30 * time.Minute
	sweepEvery  = time.Minute
	// verifyInterval is how often a token is verified again, verifyRetryInterval how soon if
	// the API server did not respond.
	verifyInterval      = 3 * time.Minute
	verifyRetryInterval = 10 * time.Second
)

// cookieLength is the length of rand.Text, the value of a cookie.
const cookieLength = 26

// digest returns a keyed digest of a secret, so that a lookup takes constant time.
func (g *Authenticator) digest(secret string) string {
	mac := hmac.New(sha256.New, g.key)
	mac.Write([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// csrfSecret returns the CSRF secret of a user without a session.
func (g *Authenticator) csrfSecret(user string) string { return g.digest("csrf " + user) }

// cookieName returns the name of the session cookie. Browsers accept the __Host- prefix only
// over HTTPS and from this host. They send cookies to all ports of a host, so that private dashboards beside each
// other need names of their own.
func (g *Authenticator) cookieName(r *http.Request) string {
	switch _, port, _ := net.SplitHostPort(r.Host); {
	case g.options.Secure:
		return "__Host-setpoint"
	case g.IsPrivate() && port != "":
		return "setpoint-" + port
	}
	return "setpoint"
}

// sessionIdentity returns the user of the session cookie.
func (g *Authenticator) sessionIdentity(r *http.Request) (*Identity, error) {
	cookie, err := r.Cookie(g.cookieName(r))
	if err != nil || cookie.Value == "" {
		return nil, ErrSignedOut
	}
	id := g.digest(cookie.Value)
	s, known := g.sessions.use(id, isBackground(r))
	switch {
	case !known && len(cookie.Value) == cookieLength:
		return nil, ErrUnknownSession
	case s == nil:
		return nil, ErrExpired
	}
	if err := g.reverify(r, id, s); err != nil {
		return nil, err
	}
	return newIdentity(s.user, s.csrf), nil
}

// reverify verifies the token of a session from time to time. An unreachable API server does
// not end a session.
func (g *Authenticator) reverify(r *http.Request, id string, s *session) error {
	if !g.sessions.claimVerification(s) {
		return nil
	}
	u, err := g.verify(r.Context(), s.user.Token)
	switch ended := expiredError(err); {
	case ended != nil:
		g.sessions.drop(id)
		return ended
	case err != nil:
		g.sessions.retryVerification(s)
	case u.Name != s.user.Name:
		g.sessions.drop(id)
		return fmt.Errorf("%w: the token now belongs to another user", ErrExpired)
	}
	return nil
}
