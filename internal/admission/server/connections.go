package server

import (
	"container/list"
	"context"
	"net"
	"sync"
)

// connections limits the connections of a server, so that a client cannot exhaust them:
// when there are too many, the oldest unproven connection is closed, or else the one used
// the longest ago. A connection is proven by a request for an existing path.
type connections struct {
	most int

	mu sync.Mutex
	// open holds *connection, the one used the longest ago in front.
	open list.List
}

// connection is one of them.
type connection struct {
	net.Conn
	of     *connections
	proven bool
	// at is its place, nil once it is closed.
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
	one.at = c.open.PushBack(one)
	surplus := c.surplus()
	c.mu.Unlock()
	if surplus != nil {
		_ = surplus.Close() // It was to end.
	}
	return one
}

// surplus returns the connection to close, or nil: not the new one, which may yet prove itself. The lock must be held.
func (c *connections) surplus() *connection {
	if c.open.Len() <= c.most {
		return nil
	}
	for at := c.open.Front(); at != c.open.Back(); at = at.Next() {
		if one := at.Value.(*connection); !one.proven {
			return one
		}
	}
	return c.open.Front().Value.(*connection)
}

// prove marks a connection as proven, and as used.
func (c *connection) prove() {
	c.of.mu.Lock()
	defer c.of.mu.Unlock()
	c.proven = true
	if c.at != nil {
		c.of.open.MoveToBack(c.at)
	}
}

// Close closes the connection and removes it from the count.
func (c *connection) Close() error {
	c.of.mu.Lock()
	if c.at != nil {
		c.of.open.Remove(c.at)
		c.at = nil
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
