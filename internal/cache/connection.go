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
func (c *connection) connected() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.opened = time.Now()
	if c.lostTimer != nil {
		c.lostTimer.Stop()
		c.lostTimer = nil
	}
}

// disconnected records that the watch has ended. A watch that lasted longer than the delay
// before it worked, and resets the delay.
func (c *connection) disconnected(ctx context.Context) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if time.Since(c.opened) > c.delay {
		c.delay = 0
	}
	if c.lostTimer == nil && ctx.Err() == nil {
		c.lostTimer = time.AfterFunc(c.gracePeriod, func() {
			if ctx.Err() == nil {
				c.report(errLost)
			}
		})
	}
}

// nextDelay returns the delay before the next attempt: twice the previous one plus as much
// jitter, so that watches that failed together are not retried together.
func (c *connection) nextDelay() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.delay = min(max(2*c.delay, c.minDelay), c.maxDelay/2)
	return c.delay + time.Duration(rand.Int64N(int64(c.delay)+1))
}

// close stops reporting.
func (c *connection) close() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.lostTimer != nil {
		c.lostTimer.Stop()
	}
}
