package wire

import (
	"context"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// Guard decides who may read.
type Guard interface {
	// Admit returns nil for the right token, and ErrToken for a missing or wrong one. Any
	// other error says why the Guard cannot tell. The client sees the error.
	Admit(ctx context.Context, token string) error
}

// Credential has the token that a client shows.
type Credential interface {
	// Token returns it; "" if there is none yet. refused is the token that the other end
	// has just refused, "" in the first request.
	Token(ctx context.Context, refused string) (string, error)
}

// ErrToken says that a request lacks the right token.
var ErrToken = errors.New("the token is missing, or another one")

// Token is the Guard and the Credential of a token that does not change. The empty
// Guard admits no request.
type Token string

// Admit compares in constant time.
func (t Token) Admit(_ context.Context, given string) error {
	if t == "" || subtle.ConstantTimeCompare([]byte(given), []byte(t)) != 1 {
		return ErrToken
	}
	return nil
}

// Token is always the same.
func (t Token) Token(context.Context, string) (string, error) { return string(t), nil }

// check lets a request through, or says why not. A web page must not be able to read
// here: its browser says where it comes from, and by which name it believes to have
// found us, which is one of the page's own where DNS was made to lead here.
func check(r *http.Request, guard Guard) error {
	switch {
	case r.Header.Get("Origin") != "":
		return statusError{http.StatusForbidden, reasonForbidden, errors.New("this is not for web pages")}
	case !isAddress(r.Host):
		return statusError{http.StatusForbidden, reasonForbidden, fmt.Errorf("host %q: use an IP address, or localhost", r.Host)}
	case len(r.URL.RawQuery) > maxQuery:
		return statusError{http.StatusRequestURITooLong, reasonBadRequest, fmt.Errorf("the query is longer than %d bytes", maxQuery)}
	}
	err := guard.Admit(r.Context(), bearer(r))
	switch {
	case errors.Is(err, ErrToken):
		return statusError{http.StatusUnauthorized, reasonUnauthorized, err}
	case err != nil:
		return statusError{http.StatusServiceUnavailable, reasonClosed, err}
	}
	return nil
}

// isAddress says whether a host is an address, rather than a name that somebody can
// have lead anywhere.
func isAddress(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return host == "localhost" || net.ParseIP(host) != nil
}

// bearer is the token of a request; "" if there is none.
func bearer(r *http.Request) string {
	token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is {
		return ""
	}
	return token
}
