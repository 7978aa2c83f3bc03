// Package webhook calls a hook that answers over HTTP.
//
// Here live the connections to one webhook, the exchange of one question for
// one answer, and the words for what goes wrong on the way. The wire form lives
// in hook; what a failed call leads to is the engine's business; who has which
// URL is decided in compile, which makes the webhooks.
package webhook

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/url"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

const (
	defaultTimeout     = 10 * time.Second
	defaultMaxReply    = 32 << 20
	defaultConcurrency = 32
	defaultUserAgent   = "setpoint"
)

// Config is one webhook. Only the URL has to be given.
type Config struct {
	// URL is http or https. A user and password in it are sent as basic
	// authentication.
	URL      string
	Version  hook.Version
	Decoding hook.Decoding
	// Timeout bounds a call from dialling to the last byte; 10 seconds if it
	// is not above zero.
	Timeout time.Duration
	// MaxReply is the size in bytes above which a reply is refused; 32 MiB if
	// it is not above zero.
	MaxReply int64
	// Concurrency is how many calls are expected at a time, and so how many
	// connections are kept; 32 if it is not above zero.
	Concurrency int
	// UserAgent is "setpoint" if empty.
	UserAgent string
	// Dial replaces the way to the network, and any proxy.
	Dial func(ctx context.Context, network, address string) (net.Conn, error)
	// Observe is told of every call after it, from the caller's goroutine.
	Observe func(Exchange)
}

// Exchange is what one call came to.
type Exchange struct {
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

// Webhook is a hook.Hook.
type Webhook struct {
	url       *url.URL
	shown     string
	version   hook.Version
	decoding  hook.Decoding
	timeout   time.Duration
	maxReply  int64
	header    http.Header
	transport *http.Transport
	observe   func(Exchange)
}

// New makes a webhook. It does not connect.
func New(c Config) (*Webhook, error) {
	target, err := parseURL(c.URL)
	if err != nil {
		return nil, err
	}
	w := &Webhook{
		url:      target,
		shown:    shown(target),
		version:  c.Version,
		decoding: c.Decoding,
		timeout:  positive(c.Timeout, defaultTimeout),
		maxReply: positive(c.MaxReply, defaultMaxReply),
		header:   newHeader(target.User, cmp.Or(c.UserAgent, defaultUserAgent)),
		observe:  c.Observe,
	}
	w.transport = newTransport(c.Dial, w.timeout, positive(c.Concurrency, defaultConcurrency))
	return w, nil
}

// Close lets go of the connections that are not in use. A closed webhook can
// still be called.
func (w *Webhook) Close() { w.transport.CloseIdleConnections() }

// Call implements hook.Hook.
func (w *Webhook) Call(ctx context.Context, req *hook.Request) (*hook.Response, error) {
	var ex Exchange
	began := time.Now()
	resp, err := w.exchange(ctx, req, &ex)
	if err != nil {
		err = fmt.Errorf("POST %s: %w", w.shown, err)
	}
	if w.observe != nil {
		ex.Duration, ex.Err = time.Since(began), err
		w.observe(ex)
	}
	return resp, err
}

func (w *Webhook) exchange(ctx context.Context, req *hook.Request, ex *Exchange) (*hook.Response, error) {
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()

	// The body is made anew for every call: the transport may go on reading
	// it after the answer has come.
	body := req.AppendJSON(nil, w.version)
	ex.BytesOut = len(body)
	answer, err := w.transport.RoundTrip(w.post(limited, body))
	if err != nil {
		return nil, w.broken(ctx, limited, err)
	}
	defer answer.Body.Close()

	ex.Code = answer.StatusCode
	if answer.StatusCode != http.StatusOK {
		return nil, w.refusal(answer, ex)
	}
	data, err := w.read(answer)
	ex.BytesIn = len(data)
	if err != nil {
		return nil, w.broken(ctx, limited, err)
	}
	return hook.DecodeResponse(data, w.decoding)
}

func (w *Webhook) post(ctx context.Context, body []byte) *http.Request {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := open()
	req := &http.Request{
		Method:        http.MethodPost,
		URL:           w.url,
		Host:          w.url.Host,
		Header:        w.header,
		Body:          first,
		GetBody:       open,
		ContentLength: int64(len(body)),
	}
	return req.WithContext(ctx)
}

func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
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

// shown is the URL less what may be secret.
func shown(u *url.URL) string {
	public := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path}
	return public.String()
}

func positive[N ~int | ~int64](n, otherwise N) N {
	if n > 0 {
		return n
	}
	return otherwise
}
