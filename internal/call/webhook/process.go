package webhook

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
)

// Index sends objects to the index of a process. The response has no content that counts.
func (w *Webhook) Index(ctx context.Context, q *hook.IndexRequest) error {
	return w.Do(ctx, call.Request{HookType: call.Index, Body: q.AppendJSON(nil)}, func([]byte) error { return nil })
}

// Notifications opens the stream of notifications, which ends with ctx. The timeout applies
// until the response begins.
func (w *Webhook) Notifications(ctx context.Context) (io.ReadCloser, error) {
	result, start := call.Result{HookType: call.Notifications}, time.Now()
	body, err := w.openStream(ctx, &result)
	if err != nil {
		err = &Error{Method: http.MethodGet, URL: w.redactedURL, Err: err}
	}
	w.Report(result, start, err)
	return body, err
}

func (w *Webhook) openStream(called context.Context, result *call.Result) (io.ReadCloser, error) {
	ctx, cancel := context.WithCancel(called)
	timeout := time.AfterFunc(w.timeout, cancel)
	current, err := w.client.current(ctx)
	if err != nil {
		cancel()
		return nil, w.credentialsError(called, err)
	}
	header := current.header.Clone()
	header.Del("Content-Type")
	header.Set("Accept", "application/x-ndjson, application/json")
	req := &http.Request{Method: http.MethodGet, URL: w.url, Host: w.url.Host, Header: header}
	resp, err := roundtrip.Do(current.transport, req.WithContext(ctx))
	late := !timeout.Stop()
	switch {
	case err != nil:
		defer cancel()
		return nil, w.callError(called, ctx, err)
	case resp.StatusCode != http.StatusOK:
		defer cancel()
		defer resp.Body.Close()
		result.Code = resp.StatusCode
		return nil, statusError(resp, w.Limits(), result)
	case late:
		_ = resp.Body.Close()
		return nil, &hook.UnreachableError{Err: w.timeoutError(ctx.Err()), Connected: true}
	}
	result.Code = resp.StatusCode
	return &streamBody{resp.Body, cancel}, nil
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
