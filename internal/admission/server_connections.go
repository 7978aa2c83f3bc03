package admission

import (
	"container/list"
	"context"
	"net"
	"net/http"
	"sync"
)

// connections bounds the connections of a server, so that no one can keep API servers
// from making theirs: when there are too many, the one goes that was used the longest
// ago. Those by which nothing has been asked yet that this server answers have a bound
// of their own.
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

// bounded is a listener whose connections are.
type bounded struct {
	net.Listener
	connections *connections
}

// Accept waits for the next connection.
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

// oldest is the first connection of a list that has too many; nil if it has not. It is
// called with the lock held.
func (c *connections) oldest(in *list.List, limit int) *connection {
	if in.Len() <= limit {
		return nil
	}
	return in.Front().Value.(*connection)
}

// prove notes that something was asked by a connection that this server answers.
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

// close closes a connection that is one too many.
func (c *connection) close() {
	if c != nil {
		_ = c.Close() // It was to end.
	}
}

// Close ends the connection, and that it is counted.
func (c *connection) Close() error {
	c.of.mu.Lock()
	if c.in != nil {
		c.in.Remove(c.at)
		c.in = nil
	}
	c.of.mu.Unlock()
	return c.Conn.Close()
}

// counts are how many connections there are of either sort.
func (c *connections) counts() (unproven, proven int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.unproven.Len(), c.proven.Len()
}

// connectionKey is where the context of a request has its connection.
type connectionKey struct{}

// withConnection is the ConnContext of a server whose listener is bounded.
func withConnection(ctx context.Context, conn net.Conn) context.Context {
	if secured, is := conn.(interface{ NetConn() net.Conn }); is {
		conn = secured.NetConn()
	}
	if counted, is := conn.(*connection); is {
		return context.WithValue(ctx, connectionKey{}, counted)
	}
	return ctx
}

// markProven notes that a request came by which its connection is proven.
func markProven(r *http.Request) {
	if counted, is := r.Context().Value(connectionKey{}).(*connection); is {
		counted.prove()
	}
}
