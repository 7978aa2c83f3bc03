package access

import (
	"crypto/hmac"
	"net/http"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// Authenticate returns the user of a request. The error wraps ErrSignedOut, ErrExpired, ErrHost
// or ErrProxyUser; other errors mean that the API server did not respond.
//
// A session expires when it is idle. Background requests do not count: event streams, and
// requests with the header X-Live.
func (g *Authenticator) Authenticate(r *http.Request) (*userclient.User, error) {
	switch {
	case g.IsPrivate():
		return g.privateUser(r)
	case g.usesProxyAuth(r):
		return g.proxyUser(r)
	}
	return g.sessionUser(r)
}

// UsesSignIn reports whether the user signs in and out with a token of the cluster.
func (g *Authenticator) UsesSignIn(r *http.Request) bool {
	return !g.IsPrivate() && !g.usesProxyAuth(r)
}

// privateUser returns the user of a private dashboard. The host must be loopback, since another
// site may resolve its name to it.
func (g *Authenticator) privateUser(r *http.Request) (*userclient.User, error) {
	cookie, err := r.Cookie(g.cookieName(r))
	switch {
	case !IsLoopback(r.Host):
		return nil, errNotLoopback
	case err != nil:
		return nil, ErrSignedOut
	case !hmac.Equal([]byte(cookie.Value), []byte(g.privateSession())):
		return nil, ErrExpired
	}
	return &userclient.User{Name: "dev", OwnCredentials: true}, nil
}

// sessionUser returns the user who has signed in.
func (g *Authenticator) sessionUser(r *http.Request) (*userclient.User, error) {
	cookie, err := r.Cookie(g.cookieName(r))
	if err != nil || cookie.Value == "" {
		return nil, ErrSignedOut
	}
	background := r.Header.Get("X-Live") != "" || r.Header.Get("Accept") == "text/event-stream"
	return g.sessions.use(g.digest(cookie.Value), background)
}
