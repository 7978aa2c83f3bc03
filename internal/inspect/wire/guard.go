package wire

import (
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
)

// guard lets a request through, or says why not. A web page must not be able to read
// here: its browser says where it comes from, and by which name it believes to have
// found us, which is one of the page's own where DNS was made to lead here.
func guard(r *http.Request, token string) error {
	switch {
	case r.Header.Get("Origin") != "":
		return refusal{http.StatusForbidden, reasonForbidden, errors.New("this is not for web pages")}
	case !numeric(r.Host):
		return refusal{http.StatusForbidden, reasonForbidden, fmt.Errorf("host %q: use an IP address, or localhost", r.Host)}
	case token != "" && !carries(r, token):
		return refusal{http.StatusUnauthorized, reasonUnauthorized, errors.New("the token is missing, or another one")}
	case len(r.URL.RawQuery) > maxQuery:
		return refusal{http.StatusRequestURITooLong, reasonBadRequest, fmt.Errorf("the query is longer than %d bytes", maxQuery)}
	}
	return nil
}

// numeric says whether a host is an address, rather than a name that somebody can
// have lead anywhere.
func numeric(hostport string) bool {
	host, _, err := net.SplitHostPort(hostport)
	if err != nil {
		host = strings.Trim(hostport, "[]")
	}
	return host == "localhost" || net.ParseIP(host) != nil
}

func carries(r *http.Request, token string) bool {
	given, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	return bearer && subtle.ConstantTimeCompare([]byte(given), []byte(token)) == 1
}
