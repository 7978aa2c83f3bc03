package access

import (
	"crypto/hmac"
	"fmt"
	"net/http"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// contentSecurityPolicy forbids content of other hosts, inline scripts and styles, and frames.
const contentSecurityPolicy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// CheckWrite rejects writes that may come from another site with ErrCrossSite, and unreadable forms with ErrBadForm.
func CheckWrite(r *http.Request) error {
	if http.NewCrossOriginProtection().Check(r) != nil {
		return ErrCrossSite
	}
	if err := r.ParseForm(); err != nil {
		return fmt.Errorf("%w: %w", ErrBadForm, err)
	}
	return nil
}

// Protect adds security headers to all responses. A private dashboard rejects hosts other than
// loopback. Responses are stored nowhere unless their handler allows it: a page that says a file is
// missing has the name of the user, and caches may take it for the file.
func (g *Authenticator) Protect(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Content-Security-Policy", contentSecurityPolicy)
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("Cross-Origin-Resource-Policy", "same-origin")
		h.Set("Permissions-Policy", "camera=(), geolocation=(), microphone=(), payment=(), usb=()")
		h.Set("Cache-Control", "no-store")
		if g.IsPrivate() && !IsLoopback(r.Host) {
			http.Error(w, errNotLoopback.Error(), http.StatusForbidden)
			return
		}
		if !g.exchange(w, r) {
			next.ServeHTTP(w, r)
		}
	})
}

// TokenParameter is the parameter of an address that has the token of a private dashboard.
const TokenParameter = "token"

// exchange signs in with the token of an address, and leads to the address without it, which the user may show and
// the browser remembers. It reports whether it did.
func (g *Authenticator) exchange(w http.ResponseWriter, r *http.Request) bool {
	query := r.URL.Query()
	token := query.Get(TokenParameter)
	if !g.IsPrivate() || r.Method != http.MethodGet || token == "" {
		return false
	}
	if g.SignIn(w, r, token) != nil {
		return false // The page for signing in follows.
	}
	query.Del(TokenParameter)
	to := *r.URL
	to.RawQuery = query.Encode()
	to.Path = "/" + strings.TrimLeft(to.Path, `/\`) // Two slashes would lead to another host.
	to.RawPath = ""
	http.Redirect(w, r, to.RequestURI(), http.StatusSeeOther) //nolint:gosec // It is a path of this host.
	return true
}

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
