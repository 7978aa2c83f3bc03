package access

import (
	"crypto/hmac"
	"crypto/rand"
	"fmt"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

const (
	// maxSessionsPerUser limits the sessions of a user. The one that was idle longest ends first.
	maxSessionsPerUser = 20
	// idleTimeout is how long an idle session lasts.
	idleTimeout = 30 * time.Minute
	// cookieGracePeriod is how long a cookie outlives its session, so that the user learns that it expired.
	cookieGracePeriod = 24 * time.Hour
	// maxTokenBytes limits tokens; those of clusters have at most 2 KiB.
	maxTokenBytes = 16 << 10
)

// session is the session of a user. It ends early when the API server rejects its token.
type session struct {
	user        userclient.User
	began, used time.Time
}

// sessionStore holds sessions by the digest of their cookie.
type sessionStore struct {
	now      func() time.Time
	lifetime time.Duration
	// onEnd is called for each removed session.
	onEnd func(userclient.User)

	mu   sync.Mutex
	byID map[string]*session
}

// use returns the user of a session, and resets its idle time unless the request is a background request.
func (s *sessionStore) use(id string, background bool) (*userclient.User, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeExpiredLocked()
	found := s.byID[id]
	if found == nil {
		return nil, ErrExpired
	}
	if !background {
		found.used = s.now()
	}
	return &found.user, nil
}

// removeExpiredLocked removes the expired sessions, since they contain tokens. The caller holds the lock.
func (s *sessionStore) removeExpiredLocked() {
	now := s.now()
	for id, each := range s.byID {
		if now.Sub(each.used) > idleTimeout || now.Sub(each.began) > s.lifetime {
			s.removeLocked(id)
		}
	}
}

// removeLocked removes a session. The caller holds the lock.
func (s *sessionStore) removeLocked(id string) {
	if gone := s.byID[id]; gone != nil {
		delete(s.byID, id)
		s.onEnd(gone.user)
	}
}

// put starts a session. It removes the oldest one of a user with too many.
func (s *sessionStore) put(id string, user userclient.User) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.removeExpiredLocked()
	count, oldest := 0, ""
	for other, each := range s.byID {
		if each.user.Name == user.Name {
			count++
			if oldest == "" || each.used.Before(s.byID[oldest].used) {
				oldest = other
			}
		}
	}
	if count >= maxSessionsPerUser {
		s.removeLocked(oldest)
	}
	s.byID[id] = &session{user: user, began: s.now(), used: s.now()}
}

// cookieName returns the name of the session cookie. Browsers accept the __Host- prefix only over HTTPS and from this
// host. They send cookies to all ports of a host, so that private dashboards beside each other need names of their own.
func (g *Authenticator) cookieName(r *http.Request) string {
	switch _, port, _ := net.SplitHostPort(r.Host); {
	case g.options.Secure:
		return "__Host-setpoint"
	case g.IsPrivate() && port != "":
		return "setpoint-" + port
	}
	return "setpoint"
}

// SignIn starts a session for the user of a token, and ends the previous one. The error of a bad
// token wraps userclient.ErrBadToken.
func (g *Authenticator) SignIn(w http.ResponseWriter, r *http.Request, token string) error {
	token = strings.TrimSpace(token)
	if g.IsPrivate() {
		if !hmac.Equal([]byte(token), []byte(g.options.Token)) {
			return userclient.ErrBadToken
		}
		http.SetCookie(w, g.newCookie(r, g.privateSession(), 0))
		return nil
	}
	if len(token) > maxTokenBytes {
		return fmt.Errorf("sign in: %w: a token has at most %d bytes", userclient.ErrBadToken, maxTokenBytes)
	}
	user, err := g.verify(r.Context(), strings.TrimPrefix(token, "Bearer "))
	if err != nil {
		return fmt.Errorf("sign in: %w", err)
	}
	g.endSession(r)
	id := rand.Text()
	g.sessions.put(g.digest(id), user)
	http.SetCookie(w, g.newCookie(r, id, int((g.options.Lifetime+cookieGracePeriod)/time.Second)))
	return nil
}

// SignOut ends the session. Open pages notice at their next request.
func (g *Authenticator) SignOut(w http.ResponseWriter, r *http.Request) {
	g.endSession(r)
	http.SetCookie(w, g.newCookie(r, "", -1))
}

func (g *Authenticator) endSession(r *http.Request) {
	if cookie, err := r.Cookie(g.cookieName(r)); err == nil {
		g.sessions.mu.Lock()
		defer g.sessions.mu.Unlock()
		g.sessions.removeLocked(g.digest(cookie.Value))
	}
}

func (g *Authenticator) newCookie(r *http.Request, value string, seconds int) *http.Cookie {
	//nolint:gosec // A Secure cookie would be ignored over HTTP.
	return &http.Cookie{
		Name: g.cookieName(r), Value: value, Path: "/", MaxAge: seconds,
		Secure: g.options.Secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}
