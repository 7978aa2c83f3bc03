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
	// maxSessions is how many are kept, and maxSessionsPerUser how many of one user; the one unused
	// for longest goes first.
	maxSessions        = 1000
	maxSessionsPerUser = 20
	// idleTimeout is how long a session lasts unused, and sweepEvery how soon what has ended is
	// forgotten, also if nobody comes.
	idleTimeout = 30 * time.Minute
	sweepEvery  = time.Minute
	// verifyInterval is how long it is believed that a token is accepted, verifyRetryInterval how soon
	// it is asked again when nobody answered.
	verifyInterval      = 3 * time.Minute
	verifyRetryInterval = 10 * time.Second
)

// session is a visitor that has signed in.
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

// touch says whether the session has not ended by time, and notes that it is used unless
// that is the page's own doing.
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

// claimVerification reports whether it is time to verify the token again, to one caller only.
func (s *session) claimVerification(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.verified) <= verifyInterval {
		return false
	}
	s.verified = now
	return true
}

// retryVerification has the token verified a little later, as nobody answered.
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

// cookieLength is how long the text of random is.
const cookieLength = 43

// randomText is 256 bits that nobody can guess, as text.
func randomText() string {
	bits := make([]byte, 32)
	_, _ = rand.Read(bits) // It never returns an error.
	return base64.RawURLEncoding.EncodeToString(bits)
}

// digest stands for a secret: a look-up by it takes as long whatever is guessed.
func (g *Authenticator) digest(secret string) string {
	mac := hmac.New(sha256.New, g.key)
	mac.Write([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// csrfSecret is the CSRF secret of a visitor that has no session.
func (g *Authenticator) csrfSecret(user string) string { return g.digest("csrf " + user) }

// cookieName is the name of the cookie that names a session. A browser takes one of the
// prefix only from this very host, and by HTTPS.
func (g *Authenticator) cookieName() string {
	if g.options.Secure {
		return "__Host-setpoint"
	}
	return "setpoint"
}

// sessionIdentity is the visitor whose session a cookie names.
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

// reverify asks from time to time whether the token of a session is still accepted.
// An API server that cannot be reached ends no session: it accepts no token either.
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
		return fmt.Errorf("%w: the token is now that of another user", ErrExpired)
	}
	return nil
}
