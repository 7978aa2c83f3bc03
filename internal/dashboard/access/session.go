package access

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"net/http"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
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

// session is the session of a user.
type session struct {
	user  userclient.User
	csrf  string
	began time.Time

	mu       sync.Mutex
	used     time.Time
	verified time.Time
}

func newSession(u userclient.User, now time.Time) *session {
	return &session{user: u, csrf: randomText(), began: now, used: now, verified: now}
}

// touch reports whether the session is valid, and resets its idle time unless the request is a
// background request.
func (s *session) touch(now time.Time, lifetime time.Duration, byItself bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.used) > idleTimeout || now.Sub(s.began) > lifetime {
		return false
	}
	if !byItself {
		s.used = now
	}
	return true
}

// claimVerification reports whether the token is due for verification, to one caller only.
func (s *session) claimVerification(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.verified) <= verifyInterval {
		return false
	}
	s.verified = now
	return true
}

// retryVerification schedules an early verification.
func (s *session) retryVerification(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified = now.Add(verifyRetryInterval - verifyInterval)
}

func (s *session) lastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// cookieLength is the length of randomText.
const cookieLength = 43

// randomText returns 256 random bits as text.
func randomText() string {
	bits := make([]byte, 32)
	_, _ = rand.Read(bits) // It never returns an error.
	return base64.RawURLEncoding.EncodeToString(bits)
}

// digest returns a keyed digest of a secret, so that a lookup takes constant time.
func (g *Authenticator) digest(secret string) string {
	mac := hmac.New(sha256.New, g.key)
	mac.Write([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// csrfSecret returns the CSRF secret of a user without a session.
func (g *Authenticator) csrfSecret(user string) string { return g.digest("csrf " + user) }

// cookieName returns the name of the session cookie. Browsers accept the __Host- prefix only
// over HTTPS and from this host.
func (g *Authenticator) cookieName() string {
	if g.options.Secure {
		return "__Host-setpoint"
	}
	return "setpoint"
}

// sessionIdentity returns the user of the session cookie.
func (g *Authenticator) sessionIdentity(r *http.Request) (*Identity, error) {
	cookie, err := r.Cookie(g.cookieName())
	if err != nil || cookie.Value == "" {
		return nil, ErrSignedOut
	}
	id, now := g.digest(cookie.Value), g.options.Now()
	s := g.sessions.get(id)
	switch {
	case s == nil && len(cookie.Value) == cookieLength:
		return nil, ErrUnknownSession
	case s == nil:
		return nil, ErrExpired
	case !s.touch(now, g.options.Lifetime, isBackground(r)):
		g.sessions.drop(id)
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
	now := g.options.Now()
	if !s.claimVerification(now) {
		return nil
	}
	u, err := g.verify(r.Context(), s.user.Token)
	switch ended := expiredError(err); {
	case ended != nil:
		g.sessions.drop(id)
		return ended
	case err != nil:
		s.retryVerification(now)
	case u.Name != s.user.Name:
		g.sessions.drop(id)
		return fmt.Errorf("%w: the token now belongs to another user", ErrExpired)
	}
	return nil
}
