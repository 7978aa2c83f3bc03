package webhook

import (
	"context"
	"crypto/tls"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"sync"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
)

// Credentials are what a webhook is asked with: whom it trusts, and who it says
// it is. They do not change; others take their place.
type Credentials struct {
	// TLS says which certificates vouch for the hook and which one is shown to
	// it. Nil stands for those of the system, and none. Connections are kept
	// for as long as the pointer stays the same.
	TLS *tls.Config
	// Authorization is the value of the header of that name; none if empty.
	Authorization string
}

// String gives nothing away.
func (*Credentials) String() string { return "credentials (not shown)" }

// GoString gives nothing away.
func (c *Credentials) GoString() string { return c.String() }

// reloadingClient holds the connections made with the credentials that are in force.
type reloadingClient struct {
	credentials  func(context.Context) (*Credentials, error)
	newTransport func(*tls.Config) *http.Transport
	header       http.Header

	active atomic.Pointer[client]
	// mu is held while the link is replaced.
	mu sync.Mutex
}

// client is a way to the hook with some credentials.
type client struct {
	credentials *Credentials
	header      http.Header
	transport   *http.Transport
}

func newReloadingClient(c Config, user *url.Userinfo) *reloadingClient {
	l := &reloadingClient{
		credentials:  c.Credentials,
		newTransport: func(tlsConfig *tls.Config) *http.Transport { return newTransport(c, tlsConfig) },
		header:       newHeader(user, c.UserAgent),
	}
	l.active.Store(&client{header: l.header, transport: l.newTransport(nil)})
	return l
}

// current is the link for the credentials in force.
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

// replace makes the link for new credentials. Only another TLS configuration
// costs the connections: a token is sent over those there are.
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

// closeIdle closes the connections that are not in use.
func (l *reloadingClient) closeIdle() { l.active.Load().transport.CloseIdleConnections() }

// roundTrip sends a request and returns the answer. A connection that was kept
// from an earlier call may turn out to be dead: a question that got not a byte
// of an answer on such a one is put once more, which is harmless, since an
// answer depends on its question alone. net/http could be told to do so, but it
// would go through all kept connections with a question that kills the hook, and
// give up on a long one that the dead end stopped in the middle.
//
// A handler is called once: the hook may have acted and died before it responded, and
// how often it is called again is a matter of its retries.
func (l *client) roundTrip(ctx context.Context, req *http.Request, kind HookType) (*http.Response, error) {
	var trace connTrace
	resp, err := roundtrip.Do(l.transport, req.WithContext(httptrace.WithClientTrace(ctx, trace.clientTrace())))
	if err == nil || kind == Handle || !trace.isStale() || ctx.Err() != nil {
		return resp, err
	}
	l.transport.CloseIdleConnections()
	again := req.WithContext(ctx)
	again.Body, _ = req.GetBody()
	return roundtrip.Do(l.transport, again)
}

// connTrace is what was seen of the connection that a question went over.
type connTrace struct{ reused, responded atomic.Bool }

func (s *connTrace) clientTrace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:              func(c httptrace.GotConnInfo) { s.reused.Store(c.Reused) },
		GotFirstResponseByte: func() { s.responded.Store(true) },
	}
}

// isStale says that the connection was a kept one and brought nothing.
func (s *connTrace) isStale() bool { return s.reused.Load() && !s.responded.Load() }
