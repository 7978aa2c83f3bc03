package webhook

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// ConnectionLimiter bounds the connections of all webhooks in the process, so that they cannot exhaust its file
// descriptors. At the limit, it closes idle connections; if all are in use, calls wait.
type ConnectionLimiter struct {
	slots chan struct{}

	mu sync.Mutex
	// webhooks are those that may have idle connections.
	webhooks map[*Transport]bool
}

// NewConnectionLimiter returns a limiter for at least one connection.
func NewConnectionLimiter(limit int) *ConnectionLimiter {
	return &ConnectionLimiter{slots: make(chan struct{}, max(1, limit)), webhooks: map[*Transport]bool{}}
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// limitDialer limits the connections that dial opens. A nil limiter returns dial.
func (c *ConnectionLimiter) limitDialer(dial dialer) dialer {
	if c == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := c.acquire(ctx); err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			<-c.slots
			return nil, err
		}
		return &limitedConn{Conn: conn, release: sync.OnceFunc(func() { <-c.slots })}, nil
	}
}

func (c *ConnectionLimiter) acquire(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
	}
	ticker := time.NewTicker(idlePollInterval)
	defer ticker.Stop()
	for {
		c.closeIdle()
		select {
		case c.slots <- struct{}{}:
			return nil
		case <-ticker.C:
		case <-ctx.Done():
			return fmt.Errorf("all %d connections to hooks are in use: %w", cap(c.slots), context.Cause(ctx))
		}
	}
}

// idlePollInterval is how often a waiting call looks for idle connections.
const idlePollInterval = 20 * time.Millisecond

func (c *ConnectionLimiter) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for w := range c.webhooks {
		w.closeIdle()
	}
}

func (c *ConnectionLimiter) add(w *Transport) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.webhooks[w] = true
	}
}

func (c *ConnectionLimiter) remove(w *Transport) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.webhooks, w)
	}
}

// limitedConn releases its slot when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
