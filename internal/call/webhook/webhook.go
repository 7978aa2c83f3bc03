// Package webhook calls a hook that answers over HTTP.
//
// Here live the connections to one webhook, the exchange of one question for
// one answer, the replies kept for hooks that speak of ETags, and the words for
// what goes wrong on the way. The wire form lives in hook; where credentials
// come from, in credential; what a failed call leads to is the engine's
// business; who has which URL is decided in compile, which makes the webhooks.
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

// The Limits of a webhook that says nothing else.
const (
	DefaultMaxResponseBytes = 32 << 20
	DefaultMaxValues        = 500_000
	DefaultMaxErrorBytes    = 200
)

// Config is one webhook. Only the URL has to be given.
type Config struct {
	// URL is http or https. A user and password in it are sent as basic
	// authentication, unless there are credentials with an Authorization.
	URL  string
	Wire hook.Wire
	// Timeout bounds a call from dialling to the last byte; 10 seconds if it
	// is not above zero.
	Timeout time.Duration
	// Limits bound what is taken of a response.
	Limits
	// Concurrency is how many calls are expected at a time, and so how many
	// connections are kept; 32 if it is not above zero.
	Concurrency int
	// UserAgent is "setpoint" if empty.
	UserAgent string
	// Credentials are asked for at every call, which fails with their error. It
	// must be quick while nothing changes, and return when ctx is done. Nil
	// stands for none.
	Credentials func(ctx context.Context) (*Credentials, error)
	// ETag lets replies be used again.
	ETag ETag
	// ConnectionLimiter bounds those of all webhooks together; nil bounds none.
	ConnectionLimiter *ConnectionLimiter
	// Dial replaces the way to the network, and any proxy but for addresses that are
	// not Routed.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Routed says that Dial leads elsewhere than the network for an address. For others
	// the proxies of the environment count. Nil stands for all.
	Routed func(address string) bool
	// Observe is told of every call after it, from the caller's goroutine.
	Observe func(CallResult)
}

// Limits bound what a response can take of the process. What is not above zero has
// its default.
type Limits struct {
	// MaxResponseBytes is the size in bytes above which a response is refused; 32 MiB.
	MaxResponseBytes int64
	// MaxValues is how many JSON values a response may have: objects, lists and
	// scalars at all depths; 500,000. A tree of them takes 50 to 300 bytes for each,
	// several times over, whatever their size in the response.
	MaxValues int
	// MaxErrorBytes is how many bytes of a response other than 200 an error repeats, which
	// goes to logs, events and conditions; 200. Less than zero is none.
	MaxErrorBytes int
}

func (l Limits) withDefaults() Limits {
	l.MaxResponseBytes = orDefault(l.MaxResponseBytes, DefaultMaxResponseBytes)
	l.MaxValues = orDefault(l.MaxValues, DefaultMaxValues)
	l.MaxErrorBytes = max(0, cmp.Or(l.MaxErrorBytes, DefaultMaxErrorBytes))
	return l
}

// HookType is what a call asked.
type HookType string

// The questions.
const (
	Sync      HookType = "sync"
	Finalize  HookType = "finalize"
	Customize HookType = "customize"
	Handle    HookType = "handle"
	Admit     HookType = "admit"
)

// CallResult is what one call came to.
type CallResult struct {
	HookType HookType
	// Code is the HTTP status code, 0 if none arrived.
	Code int
	// Duration is from the question to the answer understood.
	Duration time.Duration
	// BytesOut and BytesIn are the sizes of the bodies; BytesIn is how much of
	// a reply was read.
	BytesOut, BytesIn int
	// Err is what the caller got.
	Err error
}

// Webhook is a hook.Hook, a hook.Customizer, a hook.Handler and a hook.Admitter: the
// questions differ in their wire form alone.
type Webhook struct {
	url         *url.URL
	redactedURL string
	wire        hook.Wire
	timeout     time.Duration
	limits      Limits
	client      *reloadingClient
	// limiter is nil where nothing bounds them.
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

// New makes a webhook. It does not connect.
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

// Close lets go of the connections that are not in use. A closed webhook can
// still be called.
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
		// The body is made anew for every call: the transport may go on
		// reading it after the answer has come.
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

// Handle implements hook.Handler. No earlier reply stands for the answer to a
// notice, which is about what has happened and not about what is.
func (w *Webhook) Handle(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	var resp *hook.HandlerResponse
	// own is what the handler says went wrong, in an exchange that went well.
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

// Admit implements hook.Admitter. No earlier verdict stands for one about another
// change.
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

// do puts a question and tells the observer how it went.
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
	// Its own message repeats the URL, with any password in it.
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

// redact is the URL less what may be secret.
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
