package webhook

import (
	"context"
	"io"
	"net/http"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call/roundtrip"
)

// Index sends objects to the index of a process. The response has no content that counts.
func (w *Webhook) Index(ctx context.Context, q *hook.IndexRequest) error {
	return w.do(ctx, request{
		hookType: Index,
		body:     q.AppendJSON(nil),
		decode:   func([]byte) error { return nil },
	})
}

// Notifications opens the stream of notifications, which ends with ctx. The timeout applies
// until the response begins.
func (w *Webhook) Notifications(ctx context.Context) (io.ReadCloser, error) {
	ex, start := CallResult{HookType: Notifications}, time.Now()
	body, err := w.openStream(ctx, &ex)
	if err != nil {
		err = &Error{Method: http.MethodGet, URL: w.redactedURL, Err: err}
	}
	if w.observe != nil {
		ex.Duration, ex.Err = time.Since(start), err
		w.observe(ex)
	}
	return body, err
}

func (w *Webhook) openStream(called context.Context, ex *CallResult) (io.ReadCloser, error) {
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
		ex.Code = resp.StatusCode
		return nil, w.statusError(resp, ex)
	case late:
		_ = resp.Body.Close()
		return nil, &hook.UnreachableError{Err: w.timeoutError(ctx.Err())}
	}
	ex.Code = resp.StatusCode
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
