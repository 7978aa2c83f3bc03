// Package webhook calls hooks over HTTP.
//
// It manages the connections to one webhook, exchanges a request for a response, caches
// responses with ETags, and describes network errors. Package hook defines the wire
// form, credential reads Secrets, the loops handle errors, and compile creates the
// webhooks.
package webhook

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/url"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

const (
	defaultTimeout     = 10 * time.Second
	defaultConcurrency = 32
	defaultUserAgent   = "setpoint"
)

// The default Limits.
const (
	DefaultMaxResponseBytes = 32 << 20
	DefaultMaxValues        = 500_000
	DefaultMaxErrorBytes    = 200
)

// Config configures a webhook. Only URL is required.
type Config struct {
	// URL is http or https. Its user and password are sent as basic authentication
	// unless Credentials has an Authorization.
	URL  string
	Wire hook.Wire
	// Timeout returns the time limit of a call, from dialing to the last byte.
	Timeout time.Duration
	Limits
	// Concurrency is the expected number of parallel calls, and so of idle connections;
	// default 32.
	Concurrency int
	// UserAgent defaults to "setpoint".
	UserAgent string
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
	Observe func(CallResult)
}

// Limits bound the memory that a response takes. Values up to zero select the default.
type Limits struct {
	// MaxResponseBytes is the maximum size of a response; default 32 MiB.
	MaxResponseBytes int64
	// MaxValues is the maximum number of JSON values (objects, lists and scalars) in a
	// response; default 500,000. A decoded value takes 50 to 300 bytes, however small it
	// is in JSON.
	MaxValues int
	// MaxErrorBytes limits how much of an error response is quoted in errors, which
	// reach logs, events and conditions; default 200. Negative values quote nothing.
	MaxErrorBytes int
}

func (l Limits) withDefaults() Limits {
	l.MaxResponseBytes = orDefault(l.MaxResponseBytes, DefaultMaxResponseBytes)
	l.MaxValues = orDefault(l.MaxValues, DefaultMaxValues)
	l.MaxErrorBytes = max(0, cmp.Or(l.MaxErrorBytes, DefaultMaxErrorBytes))
	return l
}

// HookType is the type of a call.
type HookType string

// The hook types.
const (
	Sync      HookType = "sync"
	Finalize  HookType = "finalize"
	Customize HookType = "customize"
	Handle    HookType = "handle"
	Admit     HookType = "admit"
	Index     HookType = "index"
	// Notifications is the stream that a process writes.
	Notifications HookType = "notifications"
)

// CallResult is the result of one call.
type CallResult struct {
	HookType HookType
	// Code is the HTTP status code; 0 without a response.
	Code int
	// Duration is the time from sending the request to decoding the response.
	Duration time.Duration
	// BytesOut and BytesIn are the sizes of the bodies. BytesIn counts the bytes read.
	BytesOut, BytesIn int
	// Err is the error returned to the caller.
	Err error
}

// Webhook implements hook.Hook, hook.Customizer, hook.Handler and hook.Admitter, which
// differ only in the wire form.
type Webhook struct {
	url         *url.URL
	redactedURL string
	wire        hook.Wire
	timeout     time.Duration
	limits      Limits
	client      *reloadingClient
	// limiter is nil without a limit.
	limiter *ConnectionLimiter
	cache   *responseCache
	observe func(CallResult)
}

var (
	_ hook.Hook       = &Webhook{}
	_ hook.Customizer = &Webhook{}
	_ hook.Handler    = &Webhook{}
	_ hook.Admitter   = &Webhook{}
)

// New creates a webhook without connecting to it.
func New(c Config) (*Webhook, error) {
	target, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	c.Timeout = orDefault(c.Timeout, defaultTimeout)
	c.Concurrency = orDefault(c.Concurrency, defaultConcurrency)
	c.UserAgent = cmp.Or(c.UserAgent, defaultUserAgent)
	w := &Webhook{
		limiter:     c.ConnectionLimiter,
		url:         target,
		redactedURL: redact(target),
		wire:        c.Wire,
		timeout:     c.Timeout,
		limits:      c.withDefaults(),
		client:      newReloadingClient(c, target.User),
		cache:       newResponseCache(c.ETag),
		observe:     c.Observe,
	}
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

// Call implements hook.Hook.
func (w *Webhook) Call(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	var resp *hook.Response
	q := request{
		hookType: Sync,
		// Each call has its own body: the transport may still read it after the response
		// arrived.
		body:   req.AppendJSON(nil, w.wire),
		parent: req.Parent,
		decode: func(data []byte) (err error) {
			resp, err = hook.DecodeResponse(data, w.wire)
			return err
		},
	}
	if req.Finalizing {
		q.hookType = Finalize
	}
	err := w.do(ctx, q)
	return resp, err
}

// Customize implements hook.Customizer.
func (w *Webhook) Customize(ctx context.Context, req *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	var resp *hook.CustomizeResponse
	err := w.do(ctx, request{
		hookType: Customize,
		body:     req.AppendJSON(nil),
		parent:   req.Parent,
		decode: func(data []byte) (err error) {
			resp, err = hook.DecodeCustomizeResponse(data, w.wire.Decoding)
			return err
		},
	})
	return resp, err
}

// Handle implements hook.Handler. It does not cache responses: a request reports an
// event, and each event needs its own response.
func (w *Webhook) Handle(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	var resp *hook.HandlerResponse
	// own is the handler's error, reported by a successful exchange.
	var own error
	err := w.do(ctx, request{
		hookType: Handle,
		body:     n.AppendJSON(nil),
		decode: func(data []byte) (err error) {
			resp, err = hook.DecodeHandlerResponse(data, w.wire.Decoding)
			if !hook.IsMalformed(err) {
				own, err = err, nil
			}
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return resp, own
}

// Admit implements hook.Admitter. It does not cache responses, since every review is
// about another change.
func (w *Webhook) Admit(ctx context.Context, r *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	var review *hook.ReviewResponse
	err := w.do(ctx, request{
		hookType: Admit,
		body:     r.AppendJSON(nil),
		decode: func(data []byte) (err error) {
			review, err = hook.DecodeReviewResponse(data, w.wire.Decoding)
			return err
		},
	})
	if err != nil {
		return nil, err
	}
	return review, nil
}

// do makes a call and reports it to the observer.
func (w *Webhook) do(ctx context.Context, q request) error {
	ex := CallResult{HookType: q.hookType, BytesOut: len(q.body)}
	start := time.Now()
	err := w.exchange(ctx, q, &ex)
	if err != nil {
		err = &Error{URL: w.redactedURL, Err: err}
	}
	if w.observe != nil {
		ex.Duration, ex.Err = time.Since(start), err
		w.observe(ex)
	}
	return err
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

func orDefault[N ~int | ~int64](n, fallback N) N {
	if n > 0 {
		return n
	}
	return fallback
}
