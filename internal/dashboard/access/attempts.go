package access

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// How many tokens of one address may be refused within attemptWindow before its attempts
// are slowed down: then they take turns, each refusal takes the time of penalty, and who
// has waited for attemptTimeout comes again.
const (
	maxAttempts    = 10
	attemptWindow  = time.Minute
	penalty        = time.Second
	attemptTimeout = 5 * time.Second
	maxPeers       = 10000
)

// TooManyAttemptsError says that too many tokens of an address were refused, and when to come
// back. A token that the API server accepts is accepted all the same: one address may
// have many visitors.
type TooManyAttemptsError struct {
	RetryAfter time.Duration
	// Err is why this token was refused; nil if it was not looked at.
	Err error
}

func (e TooManyAttemptsError) Error() string {
	return fmt.Sprintf("too many attempts to sign in from your address: try again in %s", max(e.RetryAfter.Round(time.Second), time.Second))
}

// Unwrap is why this token was refused.
func (e TooManyAttemptsError) Unwrap() error { return e.Err }

// attemptLimiter to sign in, by address.
type attemptLimiter struct {
	mu    sync.Mutex
	peers map[netip.Addr]*peerAttempts
}

// peerAttempts counts the tokens of an address since a moment that were not accepted, or not
// yet. Once there are too many, free has a place for one that is looked at.
type peerAttempts struct {
	since time.Time
	count int
	slot  chan struct{}
}

// signInAttempt is that of one attempt.
type signInAttempt struct {
	limiter *attemptLimiter
	peer    *peerAttempts
	// slowed says that others of the address wait for its end.
	slowed bool
}

func newAttemptLimiter() *attemptLimiter {
	return &attemptLimiter{peers: map[netip.Addr]*peerAttempts{}}
}

// start counts an attempt, and waits for its turn if it has to.
func (a *attemptLimiter) start(ctx context.Context, from netip.Addr, now time.Time) (*signInAttempt, error) {
	t := a.count(peerPrefix(from), now)
	if !t.slowed {
		return t, nil
	}
	limit := time.NewTimer(attemptTimeout)
	defer limit.Stop()
	select {
	case t.peer.slot <- struct{}{}:
		return t, nil
	case <-limit.C:
		return nil, TooManyAttemptsError{RetryAfter: attemptTimeout}
	case <-ctx.Done():
		return nil, fmt.Errorf("sign in: %w", ctx.Err())
	}
}

func (a *attemptLimiter) count(from netip.Addr, now time.Time) *signInAttempt {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.peers[from]
	if at == nil || now.Sub(at.since) >= attemptWindow {
		a.evict(now)
		at = &peerAttempts{since: now, slot: make(chan struct{}, 1)}
		a.peers[from] = at
	}
	if at.count >= maxAttempts {
		return &signInAttempt{a, at, true}
	}
	at.count++
	return &signInAttempt{a, at, false}
}

// succeeded takes back what was counted of an attempt that was none at guessing.
func (t *signInAttempt) succeeded() {
	if t.slowed {
		<-t.peer.slot
		return
	}
	t.limiter.mu.Lock()
	defer t.limiter.mu.Unlock()
	t.peer.count--
}

// failed lets the next one of the address wait, also if the visitor does not, and says
// so. Where the API server did not answer, nothing was guessed.
func (t *signInAttempt) failed(err error) error {
	switch {
	case !errors.Is(err, userclient.ErrBadToken):
		t.succeeded()
	case t.slowed:
		time.AfterFunc(penalty, func() { <-t.peer.slot })
		return TooManyAttemptsError{RetryAfter: penalty, Err: err}
	}
	return err
}

// peerPrefix is an address, or what of it one household of IPv6 has in common.
func peerPrefix(from netip.Addr) netip.Addr {
	if !from.Is6() {
		return from
	}
	prefix, err := from.Prefix(64)
	if err != nil {
		return from
	}
	return prefix.Addr()
}

func (a *attemptLimiter) evict(now time.Time) {
	if len(a.peers) < maxPeers {
		return
	}
	for from, at := range a.peers {
		if now.Sub(at.since) >= attemptWindow {
			delete(a.peers, from)
		}
	}
	if len(a.peers) >= maxPeers {
		clear(a.peers)
	}
}
