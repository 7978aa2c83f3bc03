package webhook

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"

	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Exchange implements call.Transport.
func (w *Webhook) Exchange(ctx context.Context, req *call.Request, result *call.Result) (call.Response, error) {
	limited, cancel := context.WithTimeout(ctx, w.timeout)
	defer cancel()

	trace.Current(ctx).Set(trace.AttrURL, w.redactedURL)
	current, err := w.client.current(limited)
	if err != nil {
		return call.Response{}, w.credentialsError(ctx, err)
	}
	key := w.cache.keyOf(req)
	last := w.cache.get(key)
	resp, err := current.roundTrip(limited, w.newRequest(req.Body, trace.Header(ctx, last.withIfNoneMatch(current.header))), req.HookType)
	if interim, is := errors.AsType[*roundtrip.InterimError](err); is {
		result.Code = interim.Code
		return call.Response{}, &StatusError{Code: interim.Code}
	}
	if err != nil {
		return call.Response{}, w.callError(ctx, limited, err)
	}
	defer resp.Body.Close()

	call.OutputOf(ctx).Ran(w.codeOf(resp))
	result.Code = resp.StatusCode
	switch {
	case resp.StatusCode == http.StatusOK:
		data, err := read(resp, req.Limits)
		result.BytesIn = len(data)
		if err != nil {
			return call.Response{}, w.callError(ctx, limited, err)
		}
		return w.cacheable(key, resp.Header.Get("ETag"), data), nil
	case last.confirmedBy(resp.StatusCode):
		drain(resp, result)
		return call.Response{Body: bytes.Clone(last.body)}, nil
	}
	return call.Response{}, statusError(resp, req.Limits, result)
}

// cacheable returns a response that is cached once it is valid.
func (w *Webhook) cacheable(key *cacheKey, etag string, body []byte) call.Response {
	if key == nil {
		return call.Response{Body: body}
	}
	return call.Response{Body: body, Valid: func() { w.cache.put(key, etag, body) }}
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
