package cache

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/url"
	"sync"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"

	"github.com/setpoint-dev/setpoint/internal/failure"
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

// health is the error of a watch; nil while it works.
type health struct {
	onChange func(error)

	// notifyMu orders calls of onChange, which may read the current error.
	notifyMu sync.Mutex

	err atomic.Pointer[error]
}

// report stores an error and calls onChange if it differs.
func (h *health) report(err error) {
	h.notifyMu.Lock()
	defer h.notifyMu.Unlock()
	if failure.Text(h.current()) != failure.Text(err) {
		h.set(err)
		h.onChange(err)
	}
}

func (h *health) set(err error) { h.err.Store(&err) }

func (h *health) current() error {
	if err := h.err.Load(); err != nil {
		return *err
	}
	return nil
}

// idleJitter spreads idle timeouts, so that watches that became idle together are not
// reopened together.
const idleJitter = 0.2

// errIdle means that the API server sent nothing for the idle timeout.
var errIdle = errors.New("the API server, or a proxy before it, sends nothing")

// idleBody is the body of a response that is canceled when nothing arrives for the timeout. A
// proxy that drops packets, or an API server that lost a request, cannot be detected
// otherwise. Time in which no watch reads does not count.
type idleBody struct {
	io.ReadCloser
	//nolint:containedctx // Its cause says why the body ended.
	ctx     context.Context
	cancel  context.CancelCauseFunc
	timer   *time.Timer
	timeout time.Duration
}

// openUnlessIdle sends a request and returns the body of its response. Both the wait for the
// headers and each wait for more of the body end after the timeout.
func openUnlessIdle(ctx context.Context, timeout time.Duration, send func(context.Context) (io.ReadCloser, error)) (io.ReadCloser, error) {
	b := &idleBody{timeout: wait.Jitter(timeout, idleJitter)}
	b.ctx, b.cancel = context.WithCancelCause(ctx)
	b.timer = time.AfterFunc(b.timeout, func() { b.cancel(fmt.Errorf("%w for %s", errIdle, timeout)) })
	body, err := send(b.ctx)
	b.timer.Stop()
	if err != nil {
		b.cancel(nil)
		if cause := b.idle(err); cause != err { //nolint:errorlint // Asks whether it is the same error.
			return nil, &url.Error{Op: "Get", Err: cause}
		}
		return nil, err
	}
	b.ReadCloser = body
	return b, nil
}

// Read fails with errIdle when nothing arrives for the timeout.
func (b *idleBody) Read(p []byte) (int, error) {
	b.timer.Reset(b.timeout)
	defer b.timer.Stop()
	n, err := b.ReadCloser.Read(p)
	return n, b.idle(err)
}

// Close closes the body and ends its request.
func (b *idleBody) Close() error {
	defer b.cancel(nil)
	return b.ReadCloser.Close()
}

// idle returns errIdle for the error of a request that it ended, else the error.
func (b *idleBody) idle(err error) error {
	if cause := context.Cause(b.ctx); err != nil && errors.Is(cause, errIdle) {
		return cause
	}
	return err
}
