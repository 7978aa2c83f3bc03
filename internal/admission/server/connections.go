package server

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// connections limits the connections of a server, so that a client cannot exhaust them:
// when there are too many, the oldest unproven connection is closed. A connection is
// proven by a request for an existing path.
type connections struct {
	maxUnproven, maxProven int

	mu sync.Mutex
	// unproven and proven hold *connection, the one used the longest ago in front.
	unproven, proven list.List
}

// connection is one of them.
type connection struct {
	net.Conn
	of *connections
	// in is the list that it is in, nil once it is closed, and at its place there.
	in *list.List
	at *list.Element
}

// bounded is a listener with limited connections.
type bounded struct {
	net.Listener
	connections *connections
}

func (b *bounded) Accept() (net.Conn, error) {
	conn, err := b.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return b.connections.add(conn), nil
}

func (c *connections) add(conn net.Conn) *connection {
	one := &connection{Conn: conn, of: c}
	c.mu.Lock()
	one.in, one.at = &c.unproven, c.unproven.PushBack(one)
	surplus := c.oldest(&c.unproven, c.maxUnproven)
	c.mu.Unlock()
	surplus.close()
	return one
}

// oldest returns the first connection of a list over its limit, or nil. The lock must be
// held.
func (c *connections) oldest(in *list.List, limit int) *connection {
	if in.Len() <= limit {
		return nil
	}
	return in.Front().Value.(*connection)
}

// prove marks a connection as proven.
func (c *connection) prove() {
	c.of.mu.Lock()
	if c.in == nil {
		c.of.mu.Unlock()
		return
	}
	c.in.Remove(c.at)
	c.in, c.at = &c.of.proven, c.of.proven.PushBack(c)
	surplus := c.of.oldest(&c.of.proven, c.of.maxProven)
	c.of.mu.Unlock()
	surplus.close()
}

func (c *connection) close() {
	if c != nil {
		_ = c.Close() // It was to end.
	}
}

// Close closes the connection and removes it from the count.
func (c *connection) Close() error {
	c.of.mu.Lock()
	if c.in != nil {
		c.in.Remove(c.at)
		c.in = nil
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

type connectionKey struct{}

// withConnection is the ConnContext of a server.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if secured, is := conn.(interface{ NetConn() net.Conn }); is {
		conn = secured.NetConn()
	}
	if counted, is := conn.(*connection); is {
		return context.WithValue(ctx, connectionKey{}, counted)
	}
	return ctx
}

// markProven marks the connection of a request as proven.
func markProven(r *http.Request) {
	if counted, is := r.Context().Value(connectionKey{}).(*connection); is {
		counted.prove()
	}
}
