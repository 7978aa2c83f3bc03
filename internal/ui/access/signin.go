package access

import (
	"fmt"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
)

// outlives is how long a cookie is kept after its session has ended: so long a visitor is
// told that it has ended, and not only to sign in.
const outlives = 24 * time.Hour

// maxToken is how long a token may be; those of clusters have 2 KiB at most.
const maxToken = 16 << 10

// SignIn begins a session of the user that a token belongs to, and ends the one that
// the visitor had. The error wraps asuser.ErrBadToken, or is a TooManyError.
func (g *Gate) SignIn(w http.ResponseWriter, r *http.Request, token string) (*Visitor, error) {
	now := g.options.Now()
	from := g.client(r)
	if wait := g.attempts.take(from, now); wait > 0 {
		return nil, TooManyError{Retry: wait}
	}
	token = strings.TrimPrefix(strings.TrimSpace(token), "Bearer ")
	if len(token) > maxToken {
		return nil, fmt.Errorf("sign in: %w: a token has at most %d bytes", asuser.ErrBadToken, maxToken)
	}
	u, err := g.verify(r.Context(), token)
	if err != nil {
		return nil, fmt.Errorf("sign in: %w", err)
	}
	g.attempts.giveBack(from)
	g.forget(r)
	id, s := random(), newSession(u, now)
	g.sessions.put(g.digest(id), s)
	http.SetCookie(w, g.cookieOf(id, int((g.options.Lifetime+outlives)/time.Second)))
	return &Visitor{User: u, CSRF: s.csrf}, nil
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

// How often somebody may try to sign in from one address.
const (
	maxAttempts   = 10
	attemptsLimit = time.Minute
	maxPeers      = 10000
)

// TooManyError says that somebody tries to sign in too often, and when to come back.
type TooManyError struct{ Retry time.Duration }

func (e TooManyError) Error() string {
	return fmt.Sprintf("too many attempts to sign in from your address: try again in %s", e.Retry.Round(time.Second))
}

// attempts to sign in, by address.
type attempts struct {
	mu    sync.Mutex
	peers map[netip.Addr]*window
}

// window counts attempts since a moment.
type window struct {
	since time.Time
	count int
}

func newAttempts() *attempts { return &attempts{peers: map[netip.Addr]*window{}} }

// take counts an attempt, or says how long to wait for the next.
func (a *attempts) take(from netip.Addr, now time.Time) time.Duration {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.peers[network(from)]
	if at == nil || now.Sub(at.since) >= attemptsLimit {
		a.makeRoom(now)
		at = &window{since: now}
		a.peers[network(from)] = at
	}
	if at.count >= maxAttempts {
		return attemptsLimit - now.Sub(at.since)
	}
	at.count++
	return 0
}

// giveBack takes back what was counted of an attempt that was none at guessing.
func (a *attempts) giveBack(from netip.Addr) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if at := a.peers[network(from)]; at != nil && at.count > 0 {
		at.count--
	}
}

// network is an address, or what of it one household of IPv6 has in common.
func network(from netip.Addr) netip.Addr {
	if !from.Is6() {
		return from
	}
	prefix, err := from.Prefix(64)
	if err != nil {
		return from
	}
	return prefix.Addr()
}

func (a *attempts) makeRoom(now time.Time) {
	if len(a.peers) < maxPeers {
		return
	}
	for from, at := range a.peers {
		if now.Sub(at.since) >= attemptsLimit {
			delete(a.peers, from)
		}
	}
	if len(a.peers) >= maxPeers {
		clear(a.peers)
	}
}
