// Package access knows who a visitor of the window is.
//
// Here live sign-in by a token, the headers of an authenticating proxy, sessions and
// their end, and what keeps another site from using them: the origin of writes, CSRF
// tokens and security headers. What must not: pages, and what a user may do, which the
// cluster decides (asuser). Package ui calls.
package access

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net/http"
	"net/netip"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// Options say how visitors are known. The zero value has them sign in by a token.
type Options struct {
	// Open lets everybody in who can reach the process, as the process itself: for
	// development, on loopback only.
	Open bool
	// Headers are those of a proxy that has authenticated the visitor.
	//
	// Whoever reaches the process from a trusted address may be anybody, with these:
	// also who may forward a port to its pod, as that comes from loopback. So the proxy
	// should be in the same pod, and the right to forward ports there be guarded.
	Headers Headers
	// Hosts are the names under which the window is visited through that proxy, such as
	// "setpoint.example.com". A name that is not one of them may be that of another site,
	// which has it resolved to a trusted address: then no header is believed. If empty,
	// the host is localhost or the literal of an address.
	Hosts []string
	// Lifetime is how long a session lasts at most; 12 hours if zero.
	Lifetime time.Duration
	// Secure says that visitors come by HTTPS, also if a proxy ends it.
	Secure bool
	// OnSessionEnd, if set, is told whose session has ended: what is kept of the user can go. It
	// returns at once.
	OnSessionEnd func(userclient.User)
	// Now is the clock; time.Now if nil.
	Now func() time.Time
}

// Headers name what an authenticating proxy says of a visitor. Without a User header
// none is believed.
type Headers struct {
	// User is such as "X-Forwarded-User", Groups such as "X-Forwarded-Groups".
	User, Groups string
	// UserPrefix and GroupsPrefix begin the names that the API server sees, so that a
	// directory cannot name users, service accounts and groups of the cluster's own.
	UserPrefix, GroupsPrefix string
	// Trusted are the addresses of proxies; loopback if empty.
	Trusted []netip.Prefix
}

// Errors of visitors that are not known.
var (
	// ErrSignedOut says that the visitor has to sign in.
	ErrSignedOut = errors.New("you are not signed in")
	// ErrExpired says that the visitor has to sign in again.
	ErrExpired = errors.New("your session has ended")
	// ErrUnknownSession is the ErrExpired of a session that nobody here remembers: it may also be
	// one of another process.
	ErrUnknownSession = fmt.Errorf("%w, or was opened at another replica", ErrExpired)
	// ErrHost is about a request for a host that this is not.
	ErrHost        = errors.New("this address is not one of the window")
	errNotLoopback = fmt.Errorf("%w: use localhost or 127.0.0.1", ErrHost)
	// ErrProxyUser is about a visitor whom no proxy may speak for.
	ErrProxyUser = errors.New("a proxy may not speak for this user")
	// ErrBadForm is about a form that did not arrive, or that makes no sense; it wraps why.
	ErrBadForm = errors.New("the form that was sent cannot be read")
	// ErrCrossSite is about a write that may come from another site.
	ErrCrossSite = errors.New("the request does not come from a page of this window, or the page is too old: load it again")
)

// VerifyFunc says whose token this is; its error wraps asuser.ErrBadToken for nobody's.
type VerifyFunc func(ctx context.Context, token string) (userclient.User, error)

// Authenticator lets visitors in.
type Authenticator struct {
	options  Options
	verify   VerifyFunc
	sessions *sessionStore
	attempts *attemptLimiter
	origin   *http.CrossOriginProtection
	// proxiesListed says that somebody has listed the proxies: visitors have the addresses that these
	// tell, not their own.
	proxiesListed bool
	// key makes digests: of what cookies say, and the CSRF secrets of visitors who have
	// no session.
	key []byte
}

// New makes a Gate.
func New(o Options, verify VerifyFunc) *Authenticator {
	if o.Lifetime <= 0 {
		o.Lifetime = 12 * time.Hour
	}
	if o.OnSessionEnd == nil {
		o.OnSessionEnd = func(userclient.User) {}
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	behind := len(o.Headers.Trusted) > 0
	if !behind {
		o.Headers.Trusted = loopbackPrefixes()
	}
	key := make([]byte, 32)
	_, _ = rand.Read(key) // It never returns an error.
	return &Authenticator{
		options: o, verify: verify, key: key, origin: http.NewCrossOriginProtection(),
		sessions: newSessionStore(&o), attempts: newAttemptLimiter(), proxiesListed: behind,
	}
}

// Authenticate says who makes a request. The error is, or wraps, ErrSignedOut, ErrExpired,
// ErrHost or ErrProxyUser; another says that the API server could not be asked.
//
// A session ends when it is not used. What a page asks for by itself is no use of it:
// streams of events, and what is sent with the header X-Live.
func (g *Authenticator) Authenticate(r *http.Request) (*Identity, error) {
	switch {
	case g.options.Open:
		return g.openIdentity(r)
	case g.usesProxyAuth(r):
		return g.proxyIdentity(r)
	}
	return g.sessionIdentity(r)
}

// UsesSignIn reports whether the visitor of a request signs in, and out, here.
func (g *Authenticator) UsesSignIn(r *http.Request) bool {
	return !g.options.Open && !g.usesProxyAuth(r)
}

// isBackground reports whether a page makes a request without its reader.
func isBackground(r *http.Request) bool {
	return r.Header.Get("X-Live") != "" || r.Header.Get("Accept") == "text/event-stream"
}

// openIdentity is a visitor of a window that is open. A page of another site that has its
// name resolved to loopback is told apart by the host that the browser asks for.
func (g *Authenticator) openIdentity(r *http.Request) (*Identity, error) {
	if !isLoopback(r.Host) {
		return nil, errNotLoopback
	}
	return newIdentity(userclient.User{Name: "dev", OwnCredentials: true}, g.csrfSecret("dev")), nil
}
