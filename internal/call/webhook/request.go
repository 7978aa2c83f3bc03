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

// request is one question on its way to become an answer.
type request struct {
	hookType HookType
	body     []byte
	// parent is what it is about, nil where no earlier reply could stand for the
	// answer.
	parent json.RawMessage
	// key is what replies are kept by; nil if they are not.
	key *cacheKey
	// decode decodes a reply, which it may keep.
	decode func(body []byte) error
}

// exchange puts the question and reads the answer.
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

// decode reads a reply, and keeps a copy of one that may be of use again.
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

// credentialsError says why there is nothing to ask with.
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
