package access

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"k8s.io/utils/lru"

	"github.com/setpoint-dev/setpoint/internal/dashboard/userclient"
)

// After maxAttempts rejected tokens within attemptWindow, the attempts of an address are
// serialized: each rejection takes penalty, and an attempt that waits for attemptTimeout fails.
const (
	maxAttempts    = 10
	attemptWindow  = time.Minute
	penalty        = time.Second
	attemptTimeout = 5 * time.Second
	maxPeers       = 10000
)

// TooManyAttemptsError means that too many tokens of an address were rejected. Valid tokens are
// still accepted, since many users may share an address.
type TooManyAttemptsError struct {
	RetryAfter time.Duration
	// Err is why this token was rejected; nil if it was not checked.
	Err error
}

func (e TooManyAttemptsError) Error() string {
	return fmt.Sprintf("too many sign-in attempts from your address: retry in %s", max(e.RetryAfter.Round(time.Second), time.Second))
}

// Unwrap returns why this token was rejected.
func (e TooManyAttemptsError) Unwrap() error { return e.Err }

// attemptLimiter limits sign-in attempts by address.
type attemptLimiter struct {
	mu    sync.Mutex
	peers *lru.Cache
}

// peerAttempts counts the rejected and unfinished attempts of an address. Once there are too
// many, slot serializes them.
type peerAttempts struct {
	since time.Time
	count int
	slot  chan struct{}
}

// signInAttempt is one attempt.
type signInAttempt struct {
	limiter *attemptLimiter
	peer    *peerAttempts
	// slowed reports that the attempt holds the slot.
	slowed bool
}

func newAttemptLimiter() *attemptLimiter {
	return &attemptLimiter{peers: lru.New(maxPeers)}
}

// start counts an attempt, and waits for the slot if the address is slowed down.
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
	known, _ := a.peers.Get(from)
	at, _ := known.(*peerAttempts)
	if at == nil || now.Sub(at.since) >= attemptWindow {
		at = &peerAttempts{since: now, slot: make(chan struct{}, 1)}
		a.peers.Add(from, at)
	}
	if at.count >= maxAttempts {
		return &signInAttempt{a, at, true}
	}
	at.count++
	return &signInAttempt{a, at, false}
}

// succeeded removes the attempt from the count.
func (t *signInAttempt) succeeded() {
	if t.slowed {
		<-t.peer.slot
		return
	}
	t.limiter.mu.Lock()
	defer t.limiter.mu.Unlock()
	t.peer.count--
}

// failed delays the next attempt of the address, even if this client leaves. Errors other than
// a bad token do not count.
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

// peerPrefix returns the address, or the /64 prefix of an IPv6 address, which one household
// shares.
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
