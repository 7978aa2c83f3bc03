package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// errLost means that a watch ended and none is open yet.
var errLost = errors.New("the connection to the API server was lost; reconnecting")

// connection tracks the connection of a watch. It computes the delays between attempts and
// reports a watch that stays disconnected.
type connection struct {
	// minDelay and maxDelay limit the delays between attempts. A connection that is lost for
	// gracePeriod is reported.
	minDelay, maxDelay, gracePeriod time.Duration
	report                          func(error)

	mu sync.Mutex
	// delay is the last delay, opened the time at which the watch was opened.
	delay  time.Duration
	opened time.Time
	// lostTimer reports the lost connection unless it is stopped.
	lostTimer *time.Timer
}

// connected records that a watch is open.
func (l *connection) connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = time.Now()
	if l.lostTimer != nil {
		l.lostTimer.Stop()
		l.lostTimer = nil
	}
}

// disconnected records that the watch has ended. A watch that lasted longer than the delay
// before it worked, and resets the delay.
func (l *connection) disconnected(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.opened) > l.delay {
		l.delay = 0
	}
	if l.lostTimer == nil && ctx.Err() == nil {
		l.lostTimer = time.AfterFunc(l.gracePeriod, func() {
			if ctx.Err() == nil {
				l.report(errLost)
			}
		})
	}
}

// nextDelay returns the delay before the next attempt: twice the previous one plus as much
// jitter, so that watches that failed together are not retried together.
func (l *connection) nextDelay() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = min(max(2*l.delay, l.minDelay), l.maxDelay/2)
	return l.delay + time.Duration(rand.Int64N(int64(l.delay)+1))
}

// close stops reporting.
func (l *connection) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lostTimer != nil {
		l.lostTimer.Stop()
	}
}
