package child

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// The delays before the start of a child whose predecessors ended without one response. The first
// failure has none: a single call may be its reason.
const (
	firstDelay = 250 * time.Millisecond
	maxDelay   = 10 * time.Second
)

// backoff is the state of a program that does not work.
type backoff struct {
	delay time.Duration
	until time.Time
	// failed is set after the first failure.
	failed bool
}

// record counts the end of a child in its first exchange. Any response shows that the program works.
func (b *backoff) record(err error, calls int) {
	_, exited := errors.AsType[*ExitError](err)
	switch {
	case err == nil:
		*b = backoff{}
	case exited && calls == 1:
		b.fail()
	}
}

func (b *backoff) fail() {
	switch {
	case !b.failed:
		b.failed = true
		return
	case b.delay == 0:
		b.delay = firstDelay
	default:
		b.delay = min(2*b.delay, maxDelay)
	}
	b.until = time.Now().Add(b.delay)
}

// awaitBackoff waits until a child may be started.
func (p *Pool) awaitBackoff(ctx context.Context) error {
	p.mu.Lock()
	wait := time.Until(p.backoff.until)
	p.mu.Unlock()
	if wait <= 0 {
		return nil
	}
	timer := time.NewTimer(wait)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("wait before the next start: %w", context.Cause(ctx))
	}
}
