package store

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"time"
)

// errLost says that a watch ended and no other one is open yet.
var errLost = errors.New("the connection to the API server was lost; connecting again")

// link is the connection of a watch: it knows when to try again, and reports a watch
// that stays without one.
type link struct {
	// first and longest are the delays between attempts, patience is how long there may be
	// no connection until that is reported.
	first, longest, patience time.Duration
	report                   func(error)

	mu sync.Mutex
	// delay is the latest delay, opened since when the watch is open.
	delay  time.Duration
	opened time.Time
	// lost reports that there is no connection, unless it is stopped.
	lost *time.Timer
}

// up notes that a watch is open.
func (l *link) up() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.opened = time.Now()
	if l.lost != nil {
		l.lost.Stop()
		l.lost = nil
	}
}

// down notes that the open watch has ended. One that lasted longer than we waited for it
// worked: what comes next is another failure, and begins with the first delay.
func (l *link) down(ctx context.Context) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if time.Since(l.opened) > l.delay {
		l.delay = 0
	}
	if l.lost == nil && ctx.Err() == nil {
		l.lost = time.AfterFunc(l.patience, func() {
			if ctx.Err() == nil {
				l.report(errLost)
			}
		})
	}
}

// next is the delay before the next attempt: twice the one before, with up to as much
// again left to chance, for what failed together is not to come back together.
func (l *link) next() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.delay = min(max(2*l.delay, l.first), l.longest/2)
	return l.delay + time.Duration(rand.Int64N(int64(l.delay)+1))
}

// close stops reporting.
func (l *link) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lost != nil {
		l.lost.Stop()
	}
}
