package access

import (
	"crypto/hmac"
	"net/http"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// TokenParameter is the parameter of an address that has the token of a private dashboard.
const TokenParameter = "token"

// IsPrivate reports whether the dashboard belongs to those who know its token.
func (g *Authenticator) IsPrivate() bool { return g.options.Token != "" }

// privateSession is the cookie of a private dashboard. It is valid as long as the process lives, and says nothing of
// the token.
func (g *Authenticator) privateSession() string { return g.digest("session " + g.options.Token) }

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
