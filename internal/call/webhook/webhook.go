// Package webhook calls hooks over HTTP.
//
// It manages the connections to one webhook, exchanges a request for a response, caches
// responses with ETags, and describes network errors. Package call encodes and decodes,
// credential reads Secrets, and compile creates the webhooks.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"crypto/tls"
	"encoding/base64"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/httptrace"
	"net/url"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
	"github.com/setpoint-dev/setpoint/internal/object"
)

const (
	defaultTimeout     = 10 * time.Second
	defaultConcurrency = 32
)

// Config configures a webhook. Only URL is required.
type Config struct {
	// URL is http or https. Its user and password are basic authentication unless Credentials has an Authorization.
	URL string
	// Timeout is the time limit of a call, from dialing to the last byte; default 10 s.
	Timeout time.Duration
	// Concurrency is the expected number of parallel calls, and so of idle connections; default 32.
	Concurrency int
	// UserAgent defaults to "setpoint".
	UserAgent string
	// Authorization is the Authorization header of calls without credentials; "" for none.
	Authorization string
	// Credentials returns the credentials for each call; its error fails the call. It must be fast while they are
	// unchanged and must return when ctx is done. Nil means no credentials.
	Credentials func(ctx context.Context) (*Credentials, error)
	// ETag configures the response cache.
	ETag ETag
	// ConnectionLimiter is shared by all webhooks; nil means no limit.
	ConnectionLimiter *ConnectionLimiter
	// Dial replaces the default dialer, and the proxy for Routed addresses.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Routed reports whether Dial has a route to an address; nil: to all. Others use the environment's proxies.
	Routed func(address string) bool
}

// Transport is a call.Transport over HTTP. It replaces its client when credentials change.
type Transport struct {
	config Config
	url    *url.URL
	// publicURL is the URL without secrets.
	publicURL string
	cache     *responseCache
	active    atomic.Pointer[client]

	// mu guards the replacement of active.
	mu sync.Mutex
	// code is the one that the latest response names.
	code call.Code
}

var _ call.Streamer = &Transport{}

// client has the connections of one set of credentials. All calls share the header, which they only read.
type client struct {
	*http.Transport

	credentials *Credentials
	header      http.Header
}

// New creates a transport without connecting to the webhook.
func New(c Config) (*Transport, error) {
	target, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	c.Timeout = cmp.Or(max(c.Timeout, 0), defaultTimeout)
	c.Concurrency = cmp.Or(max(c.Concurrency, 0), defaultConcurrency)
	public := url.URL{Scheme: target.Scheme, Host: target.Host, Path: target.Path}
	w := &Transport{config: c, url: target, publicURL: public.String(), cache: newResponseCache(c.ETag)}
	w.active.Store(&client{w.newTransport(nil), nil, w.newHeader(nil)})
	c.ConnectionLimiter.add(w)
	return w, nil
}

// Close closes idle connections.
func (w *Transport) Close() {
	w.config.ConnectionLimiter.remove(w)
	w.closeIdle()
}

// Timeout bounds a call from dialling to the last byte.
func (w *Transport) Timeout() time.Duration { return w.config.Timeout }

func (w *Transport) closeIdle() { w.active.Load().CloseIdleConnections() }

func parseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	if parse, is := errors.AsType[*url.Error](err); is {
		err = parse.Err // The message of url.Error repeats the URL, including any password.
	}
	switch {
	case err != nil:
		return nil, fmt.Errorf("webhook url: %w", err)
	case u.Scheme != "http" && u.Scheme != "https":
		return nil, fmt.Errorf("webhook url %q: must begin with http:// or https://", u.Redacted())
	case u.Hostname() == "":
		return nil, fmt.Errorf("webhook url %q: has no host", u.Redacted())
	}
	return u, nil
}

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

func (c *Credentials) tls() *tls.Config {
	if c == nil {
		return nil
	}
	return c.TLS
}

func (w *Transport) client(ctx context.Context) (*client, error) {
	if w.config.Credentials == nil {
		return w.active.Load(), nil
	}
	c, err := w.config.Credentials(ctx)
	if err != nil {
		return nil, err
	}
	if now := w.active.Load(); now.credentials == c {
		return now, nil
	}
	return w.replace(c), nil
}

// replace creates the client for new credentials. It keeps connections unless the TLS configuration has changed.
func (w *Transport) replace(c *Credentials) *client {
	w.mu.Lock()
	defer w.mu.Unlock()
	old := w.active.Load()
	if old.credentials == c {
		return old
	}
	next := &client{old.Transport, c, w.newHeader(c)}
	if c.tls() != old.credentials.tls() {
		next.Transport = w.newTransport(c.tls())
		defer old.CloseIdleConnections()
	}
	w.active.Store(next)
	return next
}

// roundTrip sends a request and returns the response. An idle connection may be dead: if a reused one yields not a
// single byte, roundTrip retries once, which is safe because the response depends on the request alone. The retries of
// net/http are unsuitable: they would send a request that crashes the hook over every idle connection, and give up on a
// long one that a dead connection interrupts.
//
// It does not retry handler requests: the hook may have acted before it failed, and handlers have their own retries.
func (c *client) roundTrip(ctx context.Context, req *http.Request, kind call.HookType) (*http.Response, error) {
	var reused, responded atomic.Bool
	traced := httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{
		GotConn:              func(c httptrace.GotConnInfo) { reused.Store(c.Reused) },
		GotFirstResponseByte: func() { responded.Store(true) },
	})
	resp, err := roundtrip.Do(c, req.WithContext(traced))
	stale := reused.Load() && !responded.Load()
	if err == nil || kind == call.Handle || !stale || ctx.Err() != nil {
		return resp, err
	}
	c.CloseIdleConnections()
	again := req.WithContext(ctx)
	again.Body, _ = req.GetBody()
	return roundtrip.Do(c, again)
}

const (
	// idleTimeout is short enough to follow changed addresses and long enough for infrequent calls.
	idleTimeout = 30 * time.Second
	// keepAlive detects vanished peers.
	keepAlive = 15 * time.Second
	// pingAfter and pingTimeout do so for HTTP/2, where one dead connection would fail all calls.
	pingAfter   = 5 * time.Second
	pingTimeout = 5 * time.Second
	// writeBuffer fits most requests in one write. Responses bypass readBuffer, so it can be small.
	writeBuffer = 16 << 10
	readBuffer  = 4 << 10
	// maxHeader limits the size of response headers.
	maxHeader = 256 << 10
)

// newTransport returns a transport for one host and Concurrency parallel calls.
func (w *Transport) newTransport(tlsConfig *tls.Config) *http.Transport {
	c := &w.config
	dial := c.Dial
	if dial == nil {
		dial = (&net.Dialer{Timeout: c.Timeout, KeepAlive: keepAlive}).DialContext
	}
	return &http.Transport{
		DialContext:            c.ConnectionLimiter.limitDialer(dial),
		Proxy:                  c.proxy,
		TLSClientConfig:        tlsConfig.Clone(), // configuring HTTP/2 changes it
		ForceAttemptHTTP2:      true,
		HTTP2:                  &http.HTTP2Config{SendPingTimeout: pingAfter, PingTimeout: pingTimeout},
		TLSHandshakeTimeout:    c.Timeout,
		MaxIdleConnsPerHost:    c.Concurrency,
		IdleConnTimeout:        idleTimeout,
		MaxResponseHeaderBytes: maxHeader,
		WriteBufferSize:        writeBuffer,
		ReadBufferSize:         readBuffer,
		// Within a cluster, compression costs more than it saves, and a compressed response can expand to any size.
		DisableCompression: true,
	}
}

// proxy returns the environment's proxy, but none for addresses to which Dial has a route.
func (c *Config) proxy(r *http.Request) (*url.URL, error) {
	port := cmp.Or(r.URL.Port(), map[string]string{"http": "80", "https": "443"}[r.URL.Scheme])
	if c.Dial != nil && (c.Routed == nil || c.Routed(net.JoinHostPort(r.URL.Hostname(), port))) {
		return nil, nil //nolint:nilnil // No proxy, as http.Transport has it.
	}
	return http.ProxyFromEnvironment(r)
}

// newHeader returns the header of calls with these credentials, of which the URL may have some too.
func (w *Transport) newHeader(c *Credentials) http.Header {
	authorization := w.config.Authorization
	if user := w.url.User; user != nil {
		password, _ := user.Password()
		authorization = "Basic " + base64.StdEncoding.EncodeToString([]byte(user.Username()+":"+password))
	}
	if c != nil {
		authorization = cmp.Or(c.Authorization, authorization)
	}
	h := http.Header{
		"Content-Type": {"application/json"},
		"Accept":       {"application/json"},
		"User-Agent":   {cmp.Or(w.config.UserAgent, "setpoint")},
	}
	if authorization != "" {
		h.Set("Authorization", authorization)
	}
	return h
}

const (
	defaultCacheTimeout = time.Hour
	defaultCacheBytes   = 64 << 20
	// entryOverhead approximates the memory of a cached response without its body.
	entryOverhead = 512
)

// ETag configures the cache of responses with an ETag header. The next request for the same parent sends the ETag as
// If-None-Match; a status of 304 or 412 then selects the cached response.
type ETag struct {
	Enabled bool
	// Timeout is the maximum age of a cached response; default one hour.
	Timeout time.Duration
	// Cleanup is the interval between evictions of expired responses; default Timeout.
	Cleanup time.Duration
	// MaxBytes limits the size of the cache, which evicts some responses for others; default 64 MiB.
	MaxBytes int64
}

// responseCache caches responses by parent. A nil cache has no keys, and so stores nothing.
type responseCache struct {
	lifetime, cleanup time.Duration
	maxBytes          int64

	mu      sync.Mutex
	entries map[cacheKey]*cachedResponse
	size    int64
	// lastCleanup is the time of the latest eviction of expired responses.
	lastCleanup time.Time
}

// cacheKey identifies the parent of a request.
type cacheKey struct {
	hookType call.HookType
	object.Ref
}

// cachedResponse is one response. Nil means none.
type cachedResponse struct {
	etag    string
	body    []byte
	expires time.Time
}

func newResponseCache(c ETag) *responseCache {
	if !c.Enabled {
		return nil
	}
	lifetime := cmp.Or(max(c.Timeout, 0), defaultCacheTimeout)
	return &responseCache{
		lifetime: lifetime, cleanup: cmp.Or(max(c.Cleanup, 0), lifetime), maxBytes: cmp.Or(max(c.MaxBytes, 0), defaultCacheBytes),
		entries: map[cacheKey]*cachedResponse{}, lastCleanup: time.Now(),
	}
}

func (r *responseCache) get(about *cacheKey) *cachedResponse {
	if about == nil {
		return nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if found := r.entries[*about]; found != nil && time.Now().Before(found.expires) {
		return found
	}
	return nil
}

// put stores a response. One without an ETag only removes its predecessor.
func (r *responseCache) put(about *cacheKey, etag string, body []byte) {
	now := time.Now()
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remove(*about)
	if now.Sub(r.lastCleanup) >= r.cleanup {
		r.lastCleanup = now
		r.evict(func(old *cachedResponse) bool { return !now.Before(old.expires) })
	}
	if etag == "" {
		return
	}
	added := &cachedResponse{etag: etag, body: bytes.Clone(body), expires: now.Add(r.lifetime)} // The caller owns the body.
	r.evict(func(*cachedResponse) bool { return r.size+added.size() > r.maxBytes })
	if added.size() <= r.maxBytes {
		r.entries[*about] = added
		r.size += added.size()
	}
}

func (r *responseCache) evict(is func(*cachedResponse) bool) {
	for key, old := range r.entries {
		if is(old) {
			r.remove(key)
		}
	}
}

func (r *responseCache) remove(key cacheKey) {
	if old := r.entries[key]; old != nil {
		delete(r.entries, key)
		r.size -= old.size()
	}
}

func (r *cachedResponse) size() int64 { return entryOverhead + int64(len(r.etag)+len(r.body)) }

// keyOf returns the key of the request's parent; nil if the response must not be cached. Each event of a handler and
// each review needs a response of its own. The key includes the API group, since two groups may share a kind.
func (r *responseCache) keyOf(req *call.Request) *cacheKey {
	if r == nil || !slices.Contains([]call.HookType{call.Sync, call.Finalize, call.Customize}, req.HookType) {
		return nil
	}
	parent, err := object.Parse(req.Object)
	if err != nil {
		return nil
	}
	return &cacheKey{hookType: req.HookType, Ref: parent.Ref().Identity()}
}
