package access

import (
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
)

// outlives is how long a cookie is kept after its session has ended: so long a visitor is
// told that it has ended, and not only to sign in.
const outlives = 24 * time.Hour

// maxToken is how long a token may be; those of clusters have 2 KiB at most.
const maxToken = 16 << 10

// SignIn begins a session of the user that a token belongs to, and ends the one that
// the visitor had. The error wraps asuser.ErrBadToken, or is a TooManyError, which may
// be both.
func (g *Gate) SignIn(w http.ResponseWriter, r *http.Request, token string) (*Visitor, error) {
	u, err := g.identify(r, strings.TrimPrefix(strings.TrimSpace(token), "Bearer "))
	if err != nil {
		return nil, err
	}
	g.forget(r)
	id, s := random(), newSession(u, g.options.Now())
	g.sessions.put(g.digest(id), s)
	http.SetCookie(w, g.cookieOf(id, int((g.options.Lifetime+outlives)/time.Second)))
	return newVisitor(u, s.csrf), nil
}

// identify asks whose token this is, in the turn of the address that it comes from.
func (g *Gate) identify(r *http.Request, token string) (asuser.User, error) {
	if len(token) > maxToken {
		return asuser.User{}, fmt.Errorf("sign in: %w: a token has at most %d bytes", asuser.ErrBadToken, maxToken)
	}
	turn, err := g.attempts.begin(r.Context(), g.client(r), g.options.Now())
	if err != nil {
		return asuser.User{}, err
	}
	u, err := g.verify(r.Context(), token)
	if err != nil {
		return u, turn.failed(fmt.Errorf("sign in: %w", err))
	}
	turn.succeeded()
	return u, nil
}

// SignOut ends the session of a visitor, if there is one. Whoever has a page of it open
// is told at the next request.
func (g *Gate) SignOut(w http.ResponseWriter, r *http.Request) {
	g.forget(r)
	http.SetCookie(w, g.cookieOf("", -1))
}

func (g *Gate) forget(r *http.Request) {
	if cookie, err := r.Cookie(g.cookie()); err == nil {
		g.sessions.drop(g.digest(cookie.Value))
	}
}

func (g *Gate) cookieOf(value string, seconds int) *http.Cookie {
	//nolint:gosec // Where the window is served by HTTP, a Secure cookie would be none.
	return &http.Cookie{
		Name: g.cookie(), Value: value, Path: "/", MaxAge: seconds,
		Secure: g.options.Secure, HttpOnly: true, SameSite: http.SameSiteStrictMode,
	}
}
