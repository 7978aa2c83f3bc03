// Package webhook calls hooks over HTTP.
//
// It manages the connections to one webhook, exchanges a request for a response, caches
// responses with ETags, and describes network errors. Package call encodes and decodes,
// credential reads Secrets, and compile creates the webhooks.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
)

const (
	defaultTimeout     = 10 * time.Second
	defaultConcurrency = 32
	defaultUserAgent   = "setpoint"
)

// Config configures a webhook. Only URL is required.
type Config struct {
	// URL is http or https. Its user and password are sent as basic authentication
	// unless Credentials has an Authorization.
	URL  string
	Wire hook.Wire
	// Timeout returns the time limit of a call, from dialing to the last byte.
	Timeout time.Duration
	Limits  call.Limits
	// Concurrency is the expected number of parallel calls, and so of idle connections;
	// default 32.
	Concurrency int
	// UserAgent defaults to "setpoint".
	UserAgent string
	// Authorization is the Authorization header of calls without credentials; "" for none.
	Authorization string
	// Credentials returns the credentials for each call; its error fails the call. It
	// must be fast while they are unchanged and must return when ctx is done. Nil means
	// no credentials.
	Credentials func(ctx context.Context) (*Credentials, error)
	// ETag configures the response cache.
	ETag ETag
	// ConnectionLimiter is shared by all webhooks; nil means no limit.
	ConnectionLimiter *ConnectionLimiter
	// Dial replaces the default dialer, and the proxy for Routed addresses.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Routed reports whether Dial has its own route to an address. All other addresses
	// use the environment's proxies. Nil means that all are routed.
	Routed func(address string) bool
	// Observe is called after every call, on the caller's goroutine.
	Observe func(call.Result)
}

// Webhook is a call.Transport over HTTP, and the hook that is called over it.
type Webhook struct {
	*call.Hook

	url         *url.URL
	redactedURL string
	timeout     time.Duration
	client      *reloadingClient
	// limiter is nil without a limit.
	limiter *ConnectionLimiter
	cache   *responseCache

	mu sync.Mutex
	// code is the one that the latest response names.
	code call.Code
}

var _ call.Transport = &Webhook{}

// New creates a webhook without connecting to it.
func New(c Config) (*Webhook, error) {
	target, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	c.Timeout = cmp.Or(max(c.Timeout, 0), defaultTimeout)
	c.Concurrency = cmp.Or(max(c.Concurrency, 0), defaultConcurrency)
	c.UserAgent = cmp.Or(c.UserAgent, defaultUserAgent)
	w := &Webhook{
		limiter:     c.ConnectionLimiter,
		url:         target,
		redactedURL: redact(target),
		timeout:     c.Timeout,
		client:      newReloadingClient(c, target.User),
		cache:       newResponseCache(c.ETag),
	}
	w.Hook = call.New(call.Config{Transport: w, Wire: c.Wire, Limits: c.Limits, Observe: c.Observe})
	c.ConnectionLimiter.add(w.client)
	return w, nil
}

// Close closes idle connections. A closed webhook can still be called.
func (w *Webhook) Close() {
	w.limiter.remove(w.client)
	w.client.closeIdle()
}

// Timeout bounds a call from dialling to the last byte.
func (w *Webhook) Timeout() time.Duration { return w.timeout }

// Wrap implements call.Transport.
func (w *Webhook) Wrap(_ call.HookType, err error) error {
	return &Error{URL: w.redactedURL, Err: err}
}

func parseURL(rawURL string) (*url.URL, error) {
	u, err := url.Parse(rawURL)
	// The message of url.Error repeats the URL, including any password.
	if parse := (*url.Error)(nil); errors.As(err, &parse) {
		return nil, fmt.Errorf("webhook url: %w", parse.Err)
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

// redact returns the URL without secrets.
func redact(u *url.URL) string {
	public := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return public.String()
}
