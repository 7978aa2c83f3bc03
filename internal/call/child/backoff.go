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
	if !b.failed {
		b.failed = true
		return
	}
	b.delay = min(max(2*b.delay, firstDelay), maxDelay)
	b.until = time.Now().Add(b.delay)
}

// await waits until a child may be started.
func (b backoff) await(ctx context.Context) error {
	wait := time.Until(b.until)
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
