package webhook

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// ConnectionLimiter bounds how many connections all webhooks of a process have, in use or
// idle: each takes a file descriptor, without which nothing else can be served. Where
// there are too many, idle ones are closed; where all are in use, calls wait.
type ConnectionLimiter struct {
	slots chan struct{}

	mu sync.Mutex
	// clients are the webhooks that may have idle ones.
	clients map[*reloadingClient]bool
}

// NewConnectionLimiter allows so many, at least one.
func NewConnectionLimiter(limit int) *ConnectionLimiter {
	return &ConnectionLimiter{slots: make(chan struct{}, max(1, limit)), clients: map[*reloadingClient]bool{}}
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// limitDialer has what a dialer opens counted. Nil bounds nothing.
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

// idlePollInterval is how soon a call that waits looks for connections that have become idle.
const idlePollInterval = 20 * time.Millisecond

// closeIdle closes the idle connections of all webhooks.
func (c *ConnectionLimiter) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.clients {
		l.closeIdle()
	}
}

func (c *ConnectionLimiter) add(l *reloadingClient) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.clients[l] = true
	}
}

func (c *ConnectionLimiter) remove(l *reloadingClient) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.clients, l)
	}
}

// limitedConn gives its slot back when it is closed.
type limitedConn struct {
	net.Conn
	release func()
}

func (c *limitedConn) Close() error {
	defer c.release()
	return c.Conn.Close()
}
