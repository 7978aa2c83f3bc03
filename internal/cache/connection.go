package cache

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// errLost says that a watch ended and no other one is open yet.
var errLost = errors.New("the connection to the API server was lost; connecting again")

// connection is the connection of a watch: it knows when to try again, and reports a watch
// that stays without one.
type connection struct {
	// minDelay and longest are the delays between attempts, patience is how long there may be
	// no connection until that is reported.
	minDelay, maxDelay, gracePeriod time.Duration
	report                          func(error)

	mu sync.Mutex
	// delay is the latest delay, opened since when the watch is open.
	delay  time.Duration
	opened time.Time
	// lostTimer reports that there is no connection, unless it is stopped.
	lostTimer *time.Timer
}

// connected notes that a watch is open.
func (l *connection) connected() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = time.Now()
	if l.lostTimer != nil {
		l.lostTimer.Stop()
		l.lostTimer = nil
	}
}

// disconnected notes that the open watch has ended. One that lasted longer than we waited for it
// worked: what comes next is another failure, and begins with the first delay.
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

// nextDelay is the delay before the next attempt: twice the one before, with up to as much
// again left to chance, for what failed together is not to come back together.
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
