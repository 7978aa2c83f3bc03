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

// Guard authenticates requests.
type Guard interface {
	// Admit returns nil for a valid token and ErrToken for a missing or invalid one. Any
	// other error means that the token could not be checked; the client sees it.
	Admit(ctx context.Context, token string) error
}

// Credential provides the token of a client.
type Credential interface {
	// Token returns the token, or "" if there is none yet. refused is the token that was rejected before, or "".
	Token(ctx context.Context, refused string) (string, error)
}

// ErrToken is returned for a missing or invalid token.
var ErrToken = errors.New("missing or invalid token")

// Token is a Guard and a Credential with a fixed token. The empty Token admits no request.
type Token string

// Admit implements Guard. It compares in constant time.
func (t Token) Admit(_ context.Context, given string) error {
	if t == "" || subtle.ConstantTimeCompare([]byte(given), []byte(t)) != 1 {
		return ErrToken
	}
	return nil
}

// Token implements Credential.
func (t Token) Token(context.Context, string) (string, error) { return string(t), nil }

// check authenticates a request. Web pages must not read this endpoint: browsers send an
// Origin, and the Host of a rebound DNS name is not an address.
func check(r *http.Request, guard Guard) error {
	switch {
	case r.Header.Get("Origin") != "":
		return statusError{http.StatusForbidden, reasonForbidden, errors.New("not for web pages")}
	case !isAddress(r.Host):
		return statusError{http.StatusForbidden, reasonForbidden, fmt.Errorf("host %q: use an IP address, or localhost", r.Host)}
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

// isAddress reports whether a host is an IP address or localhost; other names may resolve to anything.
func isAddress(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return host == "localhost" || net.ParseIP(host) != nil
}

func bearer(r *http.Request) string {
	token, is := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !is {
		return ""
	}
	return token
}
