package webhook

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
)

// Credentials authenticate a call. They are immutable; a rotation replaces them.
type Credentials struct {
	// TLS has the trusted CAs and the client certificate. Nil means the system's CAs and
	// no certificate. Connections are reused while the pointer stays the same.
	TLS *tls.Config
	// Authorization is the Authorization header; none if empty.
	Authorization string
}

// String hides the secret values.
func (*Credentials) String() string { return "credentials (not shown)" }

// GoString hides the secret values.
func (c *Credentials) GoString() string { return c.String() }

// reloadingClient replaces its client when credentials change.
type reloadingClient struct {
	credentials  func(context.Context) (*Credentials, error)
	newTransport func(*tls.Config) *http.Transport
	header       http.Header

	active atomic.Pointer[client]
	// mu guards the replacement of active.
	mu sync.Mutex
}

// client has the connections of one set of credentials.
type client struct {
	credentials *Credentials
	header      http.Header
	transport   *http.Transport
}

func newReloadingClient(c Config, user *url.Userinfo) *reloadingClient {
	l := &reloadingClient{
		credentials:  c.Credentials,
		newTransport: func(tlsConfig *tls.Config) *http.Transport { return newTransport(c, tlsConfig) },
		header:       newHeader(user, c),
	}
	l.active.Store(&client{header: l.header, transport: l.newTransport(nil)})
	return l
}

// current returns the client for the current credentials.
func (l *reloadingClient) current(ctx context.Context) (*client, error) {
	if l.credentials == nil {
		return l.active.Load(), nil
	}
	c, err := l.credentials(ctx)
	if err != nil {
		return nil, err
	}
	if now := l.active.Load(); now.credentials == c {
		return now, nil
	}
	return l.replace(c), nil
}

// replace creates the client for new credentials. It keeps connections unless the TLS
// configuration changed: a new token goes over existing ones.
func (l *reloadingClient) replace(c *Credentials) *client {
	l.mu.Lock()
	defer l.mu.Unlock()
	old := l.active.Load()
	if old.credentials == c {
		return old
	}
	next := &client{credentials: c, header: l.header, transport: old.transport}
	if c.tls() != old.credentials.tls() {
		next.transport = l.newTransport(c.tls())
		defer old.transport.CloseIdleConnections()
	}
	if c != nil && c.Authorization != "" {
		next.header = l.header.Clone()
		next.header.Set("Authorization", c.Authorization)
	}
	l.active.Store(next)
	return next
}

func (c *Credentials) tls() *tls.Config {
	if c == nil {
		return nil
	}
	return c.TLS
}

// closeIdle closes idle connections.
func (l *reloadingClient) closeIdle() { l.active.Load().transport.CloseIdleConnections() }

// roundTrip sends a request and returns the response. An idle connection may be dead: if
// a reused one yields not a single byte, roundTrip retries once, which is safe because
// the response depends on the request alone. The retries of net/http are unsuitable:
// they would send a request that crashes the hook over every idle connection, and give
// up on a long one that a dead connection interrupts.
//
// It does not retry handler requests: the hook may have acted before it failed, and
// handlers have their own retries.
func (l *client) roundTrip(ctx context.Context, req *http.Request, kind call.HookType) (*http.Response, error) {
	var trace connTrace
	resp, err := roundtrip.Do(l.transport, req.WithContext(httptrace.WithClientTrace(ctx, trace.clientTrace())))
	if err == nil || kind == call.Handle || !trace.isStale() || ctx.Err() != nil {
		return resp, err
	}
	l.transport.CloseIdleConnections()
	again := req.WithContext(ctx)
	again.Body, _ = req.GetBody()
	return roundtrip.Do(l.transport, again)
}

// connTrace records the state of a request's connection.
type connTrace struct{ reused, responded atomic.Bool }

func (s *connTrace) clientTrace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:              func(c httptrace.GotConnInfo) { s.reused.Store(c.Reused) },
		GotFirstResponseByte: func() { s.responded.Store(true) },
	}
}

// isStale reports whether the request used an idle connection that returned nothing.
func (s *connTrace) isStale() bool { return s.reused.Load() && !s.responded.Load() }
