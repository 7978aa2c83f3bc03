package access

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/asuser"
)

// How many tokens of one address may be refused within attemptsLimit before its attempts
// are slowed down: then they take turns, each refusal takes the time of penalty, and who
// has waited for turnLimit comes again.
const (
	maxAttempts   = 10
	attemptsLimit = time.Minute
	penalty       = time.Second
	turnLimit     = 5 * time.Second
	maxPeers      = 10000
)

// TooManyError says that too many tokens of an address were refused, and when to come
// back. A token that the API server accepts is accepted all the same: one address may
// have many visitors.
type TooManyError struct {
	Retry time.Duration
	// Err is why this token was refused; nil if it was not looked at.
	Err error
}

func (e TooManyError) Error() string {
	return fmt.Sprintf("too many attempts to sign in from your address: try again in %s", max(e.Retry.Round(time.Second), time.Second))
}

// Unwrap is why this token was refused.
func (e TooManyError) Unwrap() error { return e.Err }

// attempts to sign in, by address.
type attempts struct {
	mu    sync.Mutex
	peers map[netip.Addr]*window
}

// window counts the tokens of an address since a moment that were not accepted, or not
// yet. Once there are too many, free has a place for one that is looked at.
type window struct {
	since time.Time
	count int
	free  chan struct{}
}

// turn is that of one attempt.
type turn struct {
	of     *attempts
	window *window
	// slowed says that others of the address wait for its end.
	slowed bool
}

func newAttempts() *attempts { return &attempts{peers: map[netip.Addr]*window{}} }

// begin counts an attempt, and waits for its turn if it has to.
func (a *attempts) begin(ctx context.Context, from netip.Addr, now time.Time) (*turn, error) {
	t := a.count(network(from), now)
	if !t.slowed {
		return t, nil
	}
	limit := time.NewTimer(turnLimit)
	defer limit.Stop()
	select {
	case t.window.free <- struct{}{}:
		return t, nil
	case <-limit.C:
		return nil, TooManyError{Retry: turnLimit}
	case <-ctx.Done():
		return nil, fmt.Errorf("sign in: %w", ctx.Err())
	}
}

func (a *attempts) count(from netip.Addr, now time.Time) *turn {
	a.mu.Lock()
	defer a.mu.Unlock()
	at := a.peers[from]
	if at == nil || now.Sub(at.since) >= attemptsLimit {
		a.makeRoom(now)
		at = &window{since: now, free: make(chan struct{}, 1)}
		a.peers[from] = at
	}
	if at.count >= maxAttempts {
		return &turn{a, at, true}
	}
	at.count++
	return &turn{a, at, false}
}

// succeeded takes back what was counted of an attempt that was none at guessing.
func (t *turn) succeeded() {
	if t.slowed {
		<-t.window.free
		return
	}
	t.of.mu.Lock()
	defer t.of.mu.Unlock()
	t.window.count--
}

// failed lets the next one of the address wait, also if the visitor does not, and says
// so. Where the API server did not answer, nothing was guessed.
func (t *turn) failed(err error) error {
	switch {
	case !errors.Is(err, asuser.ErrBadToken):
		t.succeeded()
	case t.slowed:
		time.AfterFunc(penalty, func() { <-t.window.free })
		return TooManyError{Retry: penalty, Err: err}
	}
	return err
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
