package access

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// cookieGracePeriod is how long a cookie outlives its session, so that the user learns that it
// expired.
const cookieGracePeriod = 24 * time.Hour

// maxTokenBytes limits tokens; those of clusters have at most 2 KiB.
const maxTokenBytes = 16 << 10

// SignIn starts a session for the user of a token, and ends the previous one. The error wraps
// userclient.ErrBadToken or is a TooManyAttemptsError, or both.
func (g *Authenticator) SignIn(w http.ResponseWriter, r *http.Request, token string) (*Identity, error) {
	if g.IsPrivate() {
		return g.signInPrivate(w, r, strings.TrimSpace(token))
	}
	u, err := g.verifyToken(r, strings.TrimPrefix(strings.TrimSpace(token), "Bearer "))
	if err != nil {
		return nil, err
	}
	g.endSession(r)
	id, s := rand.Text(), newSession(u, g.options.Now())
	g.sessions.put(g.digest(id), s)
	http.SetCookie(w, g.newCookie(r, id, int((g.options.Lifetime+cookieGracePeriod)/time.Second)))
	return newIdentity(u, s.csrf), nil
}

// verifyToken verifies a token within the limits of the client's address.
func (g *Authenticator) verifyToken(r *http.Request, token string) (userclient.User, error) {
	if len(token) > maxTokenBytes {
		return userclient.User{}, fmt.Errorf("sign in: %w: a token has at most %d bytes", userclient.ErrBadToken, maxTokenBytes)
	}
	attempt, err := g.attempts.start(r.Context(), g.clientAddr(r), g.options.Now())
	if err != nil {
		return userclient.User{}, err
	}
	u, err := g.verify(r.Context(), token)
	if err != nil {
		return u, attempt.failed(fmt.Errorf("sign in: %w", err))
	}
	attempt.succeeded()
	return u, nil
}

// SignOut ends the session. Open pages notice at their next request.
func (g *Authenticator) SignOut(w http.ResponseWriter, r *http.Request) {
	g.endSession(r)
	http.SetCookie(w, g.newCookie(r, "", -1))
}

func (g *Authenticator) endSession(r *http.Request) {
	if cookie, err := r.Cookie(g.cookieName(r)); err == nil {
		g.sessions.drop(g.digest(cookie.Value))
	}
}

func (g *Authenticator) newCookie(r *http.Request, value string, seconds int) *http.Cookie {
	//nolint:gosec // A Secure cookie would be ignored over HTTP.
	return &http.Cookie{
		Name: g.cookieName(r), Value: value, Path: "/", MaxAge: seconds,
		Secure: g.options.Secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}
