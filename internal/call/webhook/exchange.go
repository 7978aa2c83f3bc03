package webhook

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// Exchange implements call.Transport.
func (w *Transport) Exchange(ctx context.Context, req *call.Request, result *call.Result) (call.Response, error) {
	limited, cancel := context.WithTimeout(ctx, w.config.Timeout)
	defer cancel()

	trace.Current(ctx).Set(trace.AttrURL, w.publicURL)
	current, err := w.client(limited)
	if err != nil {
		return call.Response{}, credentialsError(ctx, err)
	}
	key := w.cache.keyOf(req)
	last, header := w.cache.get(key), current.header
	if last != nil {
		header = header.Clone()
		header.Set("If-None-Match", last.etag)
	}
	resp, err := current.roundTrip(limited, w.newRequest(req.Body, trace.Header(ctx, header)), req.HookType) //nolint:bodyclose // Below.
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
		response := call.Response{Body: data}
		if key != nil { // It is cached once it is valid.
			response.Valid = func() { w.cache.put(key, resp.Header.Get("ETag"), data) }
		}
		return response, nil
	case last != nil && (resp.StatusCode == http.StatusNotModified || resp.StatusCode == http.StatusPreconditionFailed):
		drain(resp, result)
		return call.Response{Body: bytes.Clone(last.body)}, nil
	}
	return call.Response{}, statusError(resp, req.Limits, result)
}

func (w *Transport) newRequest(body []byte, header http.Header) *http.Request {
	open := func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(body)), nil }
	first, _ := open()
	return &http.Request{
		Method: http.MethodPost, URL: w.url, Host: w.url.Host, Header: header,
		Body: first, GetBody: open, ContentLength: int64(len(body)),
	}
}

const (
	// initialBufferSize applies to responses without a Content-Length.
	initialBufferSize = 4 << 10
	// maxPreallocated limits the buffer allocated for a Content-Length before any data arrives.
	maxPreallocated = 1 << 20
	// maxDrained limits how much of an error response is read to reuse its connection.
	maxDrained = 64 << 10
	// maxLocation limits the Location header quoted in errors.
	maxLocation = 200
	// codeHeader is a header of responses that identifies the code of the hook, up to maxCode bytes.
	codeHeader = "Setpoint-Code"
	maxCode    = 128
)

// read returns the body, or the part received before an error. It stops at too many values.
func read(resp *http.Response, limits call.Limits) ([]byte, error) {
	if encoding := resp.Header.Get("Content-Encoding"); encoding != "" && encoding != "identity" {
		return nil, &hook.MalformedError{Err: fmt.Errorf("unexpected Content-Encoding %q", encoding)}
	}
	if resp.ContentLength > limits.MaxResponseBytes {
		return nil, limits.TooLarge()
	}
	size := min(resp.ContentLength, maxPreallocated) + 1 // So that the read of the last byte meets the end.
	if resp.ContentLength < 0 {
		size = min(initialBufferSize, limits.MaxResponseBytes+1)
	}
	data := make([]byte, 0, size)
	for {
		n, err := resp.Body.Read(data[len(data):cap(data)])
		data = data[:len(data)+n]
		switch {
		case int64(len(data)) > limits.MaxResponseBytes:
			return data, limits.TooLarge()
		case err == io.EOF:
			return data, nil
		case err != nil:
			return data, &truncatedError{bytesRead: len(data), err: err}
		case len(data) == cap(data):
			// Check before growing the buffer.
			if err := limits.CheckValues(data); err != nil {
				return data, err
			}
			data = append(make([]byte, 0, min(2*int64(len(data)), limits.MaxResponseBytes+1)), data...)
		}
	}
}

func (w *Transport) codeOf(resp *http.Response) call.Code {
	digest := resp.Header.Get(codeHeader)
	if digest == "" || len(digest) > maxCode {
		return call.Code{}
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.code.Digest != digest {
		w.code = call.Code{Digest: digest, Since: time.Now()}
	}
	return w.code
}

func statusError(resp *http.Response, limits call.Limits, result *call.Result) error {
	err := &StatusError{Code: resp.StatusCode, Body: call.Quote(string(drain(resp, result)), limits.MaxErrorBytes)}
	if resp.StatusCode/100 == 3 {
		err.Location = call.Quote(resp.Header.Get("Location"), maxLocation)
	}
	switch resp.StatusCode {
	case http.StatusTooManyRequests:
	case http.StatusBadGateway, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		// Proxies return these if their backend is unreachable.
		return &hook.UnreachableError{Err: err, Connected: true}
	default:
		return err
	}
	if after := retryAfter(resp.Header.Get("Retry-After")); after > 0 {
		return &hook.RetryAfterError{After: after, Err: err}
	}
	return err
}

// drain reads a limited part of an error response so that the connection can be reused.
func drain(resp *http.Response, result *call.Result) []byte {
	head, _ := io.ReadAll(io.LimitReader(resp.Body, maxDrained))
	result.BytesIn = len(head)
	return head
}

// retryAfter parses seconds or a date. It returns 0, which selects the queue's backoff, for other or past values.
func retryAfter(value string) time.Duration {
	if seconds, err := strconv.ParseInt(value, 10, 64); err == nil {
		return time.Duration(min(max(seconds, 0), int64(call.MaxRetryAfter/time.Second))) * time.Second
	}
	if date, err := http.ParseTime(value); err == nil {
		return min(max(time.Until(date), 0), call.MaxRetryAfter)
	}
	return 0
}

// OpenStream opens the stream of notifications of a process. The timeout applies until the response begins.
func (w *Transport) OpenStream(called context.Context, req *call.Request, result *call.Result) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(called)
	timeout := time.AfterFunc(w.config.Timeout, cancel)
	current, err := w.client(ctx)
	if err != nil {
		cancel()
		return nil, credentialsError(called, err)
	}
	header := current.header.Clone()
	header.Del("Content-Type")
	header.Set("Accept", "application/x-ndjson, application/json")
	get := &http.Request{Method: http.MethodGet, URL: w.url, Host: w.url.Host, Header: header}
	resp, err := roundtrip.Do(current, get.WithContext(ctx)) //nolint:bodyclose // By the streamBody.
	late := !timeout.Stop()
	if err != nil {
		defer cancel()
		return nil, w.callError(called, ctx, err)
	}
	body := &streamBody{resp.Body, cancel}
	if late && resp.StatusCode == http.StatusOK {
		_ = body.Close()
		return nil, &hook.UnreachableError{Err: w.timeoutError(ctx.Err()), Connected: true}
	}
	result.Code = resp.StatusCode
	if resp.StatusCode != http.StatusOK {
		defer func() { _ = body.Close() }()
		return nil, statusError(resp, req.Limits, result)
	}
	return body, nil
}

// streamBody is the body of a stream. Closing it ends the request.
type streamBody struct {
	io.ReadCloser
	cancel context.CancelFunc
}

func (b *streamBody) Close() error {
	defer b.cancel()
	return b.ReadCloser.Close()
}
