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

// links holds the connections made with the credentials that are in force.
type links struct {
	credentials func(context.Context) (*Credentials, error)
	open        func(*tls.Config) *http.Transport
	header      http.Header

	now atomic.Pointer[link]
	// changing is held while the link is replaced.
	changing sync.Mutex
}

// link is a way to the hook with some credentials.
type link struct {
	credentials *Credentials
	header      http.Header
	transport   *http.Transport
}

func newLinks(c Config, user *url.Userinfo) *links {
	l := &links{
		credentials: c.Credentials,
		open:        func(secured *tls.Config) *http.Transport { return newTransport(c, secured) },
		header:      newHeader(user, c.UserAgent),
	}
	l.now.Store(&link{header: l.header, transport: l.open(nil)})
	return l
}

// current is the link for the credentials in force.
func (l *links) current(ctx context.Context) (*link, error) {
	if l.credentials == nil {
		return l.now.Load(), nil
	}
	c, err := l.credentials(ctx)
	if err != nil {
		return nil, err
	}
	if now := l.now.Load(); now.credentials == c {
		return now, nil
	}
	return l.change(c), nil
}

// change makes the link for new credentials. Only another TLS configuration
// costs the connections: a token is sent over those there are.
func (l *links) change(c *Credentials) *link {
	l.changing.Lock()
	defer l.changing.Unlock()
	old := l.now.Load()
	if old.credentials == c {
		return old
	}
	next := &link{credentials: c, header: l.header, transport: old.transport}
	if c.tls() != old.credentials.tls() {
		next.transport = l.open(c.tls())
		defer old.transport.CloseIdleConnections()
	}
	if c != nil && c.Authorization != "" {
		next.header = l.header.Clone()
		next.header.Set("Authorization", c.Authorization)
	}
	l.now.Store(next)
	return next
}

func (c *Credentials) tls() *tls.Config {
	if c == nil {
		return nil
	}
	return c.TLS
}

// hangUp closes the connections that are not in use.
func (l *links) hangUp() { l.now.Load().transport.CloseIdleConnections() }

// roundTrip sends a request and returns the answer. A connection that was kept
// from an earlier call may turn out to be dead: a question that got not a byte
// of an answer on such a one is put once more, which is harmless, since an
// answer depends on its question alone. net/http could be told to do so, but it
// would go through all kept connections with a question that kills the hook, and
// give up on a long one that the dead end stopped in the middle.
//
// A handler is called once: the hook may have acted and died before it responded, and
// how often it is called again is a matter of its retries.
func (l *link) roundTrip(ctx context.Context, req *http.Request, kind Question) (*http.Response, error) {
	var seen sighting
	answer, err := roundtrip.Do(l.transport, req.WithContext(httptrace.WithClientTrace(ctx, seen.trace())))
	if err == nil || kind == Handle || !seen.stale() || ctx.Err() != nil {
		return answer, err
	}
	l.transport.CloseIdleConnections()
	again := req.WithContext(ctx)
	again.Body, _ = req.GetBody()
	return roundtrip.Do(l.transport, again)
}

// sighting is what was seen of the connection that a question went over.
type sighting struct{ kept, answered atomic.Bool }

func (s *sighting) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GotConn:              func(c httptrace.GotConnInfo) { s.kept.Store(c.Reused) },
		GotFirstResponseByte: func() { s.answered.Store(true) },
	}
}

// stale says that the connection was a kept one and brought nothing.
func (s *sighting) stale() bool { return s.kept.Load() && !s.answered.Load() }
