package webhook

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// request is one call.
type request struct {
	hookType HookType
	body     []byte
	// parent is the parent object; nil if responses must not be cached.
	parent json.RawMessage
	// key is the cache key; nil without caching.
	key *cacheKey
	// decode decodes a response body and may retain it.
	decode func(body []byte) error
}

// exchange sends the request and decodes the response.
func (w *Webhook) exchange(ctx context.Context, q request, ex *CallResult) error {
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()

	current, err := w.client.current(limited)
	if err != nil {
		return w.credentialsError(ctx, err)
	}
	if w.cache != nil && q.parent != nil {
		q.key = q.cacheKey()
	}
	last := w.cache.get(q.key)
	resp, err := current.roundTrip(limited, w.newRequest(q.body, last.withIfNoneMatch(current.header)), q.hookType)
	if interim, is := errors.AsType[*roundtrip.InterimError](err); is {
		ex.Code = interim.Code
		return &StatusError{Code: interim.Code}
	}
	if err != nil {
		return w.callError(ctx, limited, err)
	}
	defer resp.Body.Close()

	ex.Code = resp.StatusCode
	switch {
	case resp.StatusCode == http.StatusOK:
		data, err := w.read(resp)
		ex.BytesIn = len(data)
		if err != nil {
			return w.callError(ctx, limited, err)
		}
		return w.decode(q, resp.Header.Get("ETag"), data)
	case last.confirmedBy(resp.StatusCode):
		drain(resp, ex)
		return q.decode(bytes.Clone(last.body))
	}
	return w.statusError(resp, ex)
}

// decode decodes a response and caches a copy.
func (w *Webhook) decode(q request, etag string, data []byte) error {
	if err := object.LimitValues(data, w.limits.MaxValues); err != nil {
		return &hook.MalformedError{Err: err}
	}
	if err := q.decode(data); err != nil {
		return err
	}
	w.cache.put(q.key, etag, data)
	return nil
}

// credentialsError wraps err unless the caller's context ended.
func (w *Webhook) credentialsError(called context.Context, err error) error {
	if called.Err() != nil {
		return called.Err()
	}
	return &CredentialsError{err}
}

func (w *Webhook) newRequest(body []byte, header http.Header) *http.Request {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := open()
	return &http.Request{
		Method:        http.MethodPost,
		URL:           w.url,
		Host:          w.url.Host,
		Header:        header,
		Body:          first,
		GetBody:       open,
		ContentLength: int64(len(body)),
	}
}
