package webhook

import (
	"context"
	"fmt"
	"net"
	"sync"
	"time"
)

// Connections bounds how many connections all webhooks of a process have, in use or
// idle: each takes a file descriptor, without which nothing else can be served. Where
// there are too many, idle ones are closed; where all are in use, calls wait.
type Connections struct {
	slots chan struct{}

	mu sync.Mutex
	// of are the webhooks that may have idle ones.
	of map[*links]bool
}

// NewConnections allows so many, at least one.
func NewConnections(limit int) *Connections {
	return &Connections{slots: make(chan struct{}, max(1, limit)), of: map[*links]bool{}}
}

type dialer func(ctx context.Context, network, address string) (net.Conn, error)

// bound has what a dialer opens counted. Nil bounds nothing.
func (c *Connections) bound(dial dialer) dialer {
	if c == nil {
		return dial
	}
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		if err := c.take(ctx); err != nil {
			return nil, err
		}
		conn, err := dial(ctx, network, address)
		if err != nil {
			<-c.slots
			return nil, err
		}
		return &countedConn{Conn: conn, free: sync.OnceFunc(func() { <-c.slots })}, nil
	}
}

func (c *Connections) take(ctx context.Context) error {
	select {
	case c.slots <- struct{}{}:
		return nil
	default:
	}
	ticker := time.NewTicker(lookForIdle)
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

// lookForIdle is how soon a call that waits looks for connections that have become idle.
const lookForIdle = 20 * time.Millisecond

// closeIdle closes the idle connections of all webhooks.
func (c *Connections) closeIdle() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for l := range c.of {
		l.hangUp()
	}
}

func (c *Connections) add(l *links) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.of[l] = true
	}
}

func (c *Connections) remove(l *links) {
	if c != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.of, l)
	}
}

// countedConn gives its slot back when it is closed.
type countedConn struct {
	net.Conn
	free func()
}

func (c *countedConn) Close() error {
	defer c.free()
	return c.Conn.Close()
}
