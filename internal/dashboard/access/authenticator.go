// Package access authenticates the users of the dashboard.
//
// It contains sign-in with a token, the headers of an authenticating proxy, sessions, and the
// protection against other sites: origin checks and security headers. Pages belong
// in package dashboard; what a user may do is decided by the cluster.
package access

import (
	"cmp"
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"fmt"
	"net/netip"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// Options configure authentication. By default users sign in with a token.
type Options struct {
	// Token makes the dashboard private: a user who signs in with it, or opens an address with it, uses the
	// credentials of the process, as long as the process lives. It is for development and accepts loopback only.
	Token string
	// Headers are set by a proxy that authenticated the user.
	//
	// A client with a trusted address can claim to be any user. That includes users who may forward a port to the pod,
	// since such connections come from loopback. Run the proxy in the same pod and restrict pods/portforward.
	Headers Headers
	// Hosts are the host names of the dashboard behind the proxy, such as "setpoint.example.com". The headers of
	// requests for other hosts are ignored, since another site may resolve its name to a trusted address. If empty, the
	// host must be localhost or an IP address.
	Hosts []string
	// Lifetime is the maximum lifetime of a session; 12 hours if zero.
	Lifetime time.Duration
	// Secure reports that users connect with HTTPS, also if a proxy terminates it.
	Secure bool
	// OnSessionEnd, if set, is called with the user of each ended session. It must not block.
	OnSessionEnd func(userclient.User)
	// Now is time.Now if nil.
	Now func() time.Time
}

// Headers are the names of the proxy's headers. Without User, no header is trusted.
type Headers struct {
	// User is for example "X-Forwarded-User", Groups "X-Forwarded-Groups".
	User, Groups string
	// UserPrefix and GroupsPrefix are prepended, so that a directory cannot name users, service
	// accounts and groups of the cluster.
	UserPrefix, GroupsPrefix string
	// Trusted are the addresses of proxies; loopback if empty.
	Trusted []netip.Prefix
}

// Authentication errors.
var (
	// ErrSignedOut means that the user has to sign in.
	ErrSignedOut = errors.New("you are not signed in")
	// ErrExpired means that the user has to sign in again.
	ErrExpired = errors.New("your session has ended, or was opened on another replica")
	// ErrHost means that the request is for an unknown host.
	ErrHost        = errors.New("unknown host name")
	errNotLoopback = fmt.Errorf("%w: use localhost or 127.0.0.1", ErrHost)
	// ErrProxyUser means that a proxy may not name this user.
	ErrProxyUser = errors.New("a proxy may not authenticate this user")
	// ErrBadForm wraps why a form could not be read.
	ErrBadForm = errors.New("invalid form")
	// ErrCrossSite means that a write may come from another site.
	ErrCrossSite = errors.New("the request comes from another site")
)

// VerifyFunc returns the user of a token. Its error wraps userclient.ErrBadToken for an invalid token.
type VerifyFunc func(ctx context.Context, token string) (userclient.User, error)

// Authenticator authenticates requests.
type Authenticator struct {
	options  Options
	verify   VerifyFunc
	sessions *sessionStore
	// key is the key of the digests of session IDs.
	key []byte
}

// New returns an Authenticator.
func New(o Options, verify VerifyFunc) *Authenticator {
	o.Lifetime = cmp.Or(max(o.Lifetime, 0), 12*time.Hour)
	if o.OnSessionEnd == nil {
		o.OnSessionEnd = func(userclient.User) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Authenticator{
		options: o, verify: verify, key: []byte(rand.Text()),
		sessions: &sessionStore{now: o.Now, lifetime: o.Lifetime, onEnd: o.OnSessionEnd, byID: map[string]*session{}},
	}
}

// IsPrivate reports whether the dashboard belongs to those who know its token.
func (g *Authenticator) IsPrivate() bool { return g.options.Token != "" }

// privateSession is the cookie of a private dashboard. It is valid as long as the process lives, and says nothing of
// the token.
func (g *Authenticator) privateSession() string { return g.digest("session " + g.options.Token) }

// digest returns a keyed digest of a secret, so that a lookup takes constant time.
func (g *Authenticator) digest(secret string) string {
	mac := hmac.New(sha256.New, g.key)
	mac.Write([]byte(secret))
	return base64.RawURLEncoding.EncodeToString(mac.Sum(nil))
}
