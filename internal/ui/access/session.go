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

	"github.com/setpoint-dev/setpoint/internal/asuser"
)

const (
	// maxSessions is how many are kept, and maxOfUser how many of one user; the one unused
	// for longest goes first.
	maxSessions = 1000
	maxOfUser   = 20
	// idle is how long a session lasts unused, and sweepEvery how soon what has ended is
	// forgotten, also if nobody comes.
	idle       = 30 * time.Minute
	sweepEvery = time.Minute
	// recheck is how long it is believed that a token is accepted, retryCheck how soon
	// it is asked again when nobody answered.
	recheck    = 3 * time.Minute
	retryCheck = 10 * time.Second
)

// session is a visitor that has signed in.
type session struct {
	user  asuser.User
	csrf  string
	began time.Time

	mu       sync.Mutex
	used     time.Time
	verified time.Time
}

func newSession(u asuser.User, now time.Time) *session {
	return &session{user: u, csrf: random(), began: now, used: now, verified: now}
}

// use says whether the session has not ended by time, and notes that it is used unless
// that is the page's own doing.
func (s *session) use(now time.Time, lifetime time.Duration, byItself bool) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.used) > idle || now.Sub(s.began) > lifetime {
		return false
	}
	if !byItself {
		s.used = now
	}
	return true
}

// claimCheck reports whether it is time to verify the token again, to one caller only.
func (s *session) claimCheck(now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if now.Sub(s.verified) <= recheck {
		return false
	}
	s.verified = now
	return true
}

// checkSoon has the token verified a little later, as nobody answered.
func (s *session) checkSoon(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.verified = now.Add(retryCheck - recheck)
}

func (s *session) lastUsed() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used
}

// cookieLetters is how long the text of random is.
const cookieLetters = 43

// random is 256 bits that nobody can guess, as text.
func random() string {
	bits := make([]byte, 32)
	_, _ = rand.Read(bits) // It never returns an error.
	return base64.RawURLEncoding.EncodeToString(bits)
}

// digest stands for a secret: a look-up by it takes as long whatever is guessed.
func (g *Gate) digest(secret string) string {
	mac := hmac.New(sha256.New, g.key)
	mac.Write([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}

// csrf is the CSRF secret of a visitor that has no session.
func (g *Gate) csrf(user string) string { return g.digest("csrf " + user) }

// cookie is the name of the cookie that names a session. A browser takes one of the
// prefix only from this very host, and by HTTPS.
func (g *Gate) cookie() string {
	if g.options.Secure {
		return "__Host-setpoint"
	}
	return "setpoint"
}

// remembered is the visitor whose session a cookie names.
func (g *Gate) remembered(r *http.Request) (*Visitor, error) {
	cookie, err := r.Cookie(g.cookie())
	if err != nil || cookie.Value == "" {
		return nil, ErrSignedOut
	}
	id, now := g.digest(cookie.Value), g.options.Now()
	s := g.sessions.get(id)
	switch {
	case s == nil && len(cookie.Value) == cookieLetters:
		return nil, ErrUnknown
	case s == nil:
		return nil, ErrExpired
	case !s.use(now, g.options.Lifetime, byItself(r)):
		g.sessions.drop(id)
		return nil, ErrExpired
	}
	if err := g.verifyAgain(r, id, s); err != nil {
		return nil, err
	}
	return newVisitor(s.user, s.csrf), nil
}

// verifyAgain asks from time to time whether the token of a session is still accepted.
// An API server that cannot be reached ends no session: it accepts no token either.
func (g *Gate) verifyAgain(r *http.Request, id string, s *session) error {
	now := g.options.Now()
	if !s.claimCheck(now) {
		return nil
	}
	u, err := g.verify(r.Context(), s.user.Token)
	switch ended := refused(err); {
	case ended != nil:
		g.sessions.drop(id)
		return ended
	case err != nil:
		s.checkSoon(now)
	case u.Name != s.user.Name:
		g.sessions.drop(id)
		return fmt.Errorf("%w: the token is now that of another user", ErrExpired)
	}
	return nil
}
