package handler

import (
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// A synctest bubble has no network: clients call the server through its transport, and time
// passes when all goroutines wait.

// newBubbleServer returns a server without a network.
func newBubbleServer(t *testing.T) *server {
	return &server{t: t, version: 1, objects: map[string]map[string]any{}, changed: make(chan struct{})}
}

// inBubble runs a test in a bubble with a server.
func inBubble(t *testing.T, test func(t *testing.T, s *server)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newBubbleServer(t)) })
}

func runInBubble(t *testing.T, name string, test func(t *testing.T, s *server)) {
	t.Run(name, func(t *testing.T) { inBubble(t, test) })
}

// RoundTrip implements http.RoundTripper.
func (s *server) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.Body == nil {
		r.Body = http.NoBody
	}
	if r.URL.Query().Get("watch") == "true" && r.URL.Query().Get("sendInitialEvents") != "true" {
		return s.stream(r), nil
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Result(), nil
}

// stream serves a watch until its context ends or its body is closed.
func (s *server) stream(r *http.Request) *http.Response {
	ctx, cancel := context.WithCancel(r.Context())
	from, to := io.Pipe()
	go func() {
		defer cancel()
		s.watch(&streamWriter{PipeWriter: to}, r.WithContext(ctx))
		_ = to.CloseWithError(io.EOF)
	}()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: &cancelOnClose{from, cancel}, Request: r,
	}
}

type streamWriter struct{ *io.PipeWriter }

func (*streamWriter) Header() http.Header { return http.Header{} }
func (*streamWriter) WriteHeader(int)     {}
func (*streamWriter) Flush()              {}

type cancelOnClose struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (c *cancelOnClose) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}

// elapse waits in the time of the bubble.
func elapse(d time.Duration) { <-time.After(d) }

// callRecord is one call of a handler and its start.
type callRecord struct {
	handler, object string
	reason          hook.Reason
	attempt         int
	at              time.Time
}

// bubbleEnv is a controller in a bubble, with its calls and events.
type bubbleEnv struct {
	*Controller
	observed

	calls []callRecord
	stop  func()
}

func (w *bubbleEnv) recordCall(n *hook.HandlerRequest) {
	w.lock.Lock()
	defer w.lock.Unlock()
	w.calls = append(w.calls, callRecord{n.Handler, n.Name, n.Reason, n.Attempt, time.Now()})
}

// callsOf returns the calls of a handler, for one object or for all.
func (w *bubbleEnv) callsOf(handler, object string) []callRecord {
	w.lock.Lock()
	defer w.lock.Unlock()
	return slices.DeleteFunc(slices.Clone(w.calls), func(c callRecord) bool {
		return c.handler != handler || object != "" && c.object != object
	})
}

// expectCalls compares how many calls there were of a handler, for one object or for all.
func (w *bubbleEnv) expectCalls(t *testing.T, handler, object string, want int) {
	t.Helper()
	if made := w.callsOf(handler, object); len(made) != want {
		t.Errorf("called %+v, want %d calls", made, want)
	}
}

// handlerFunc is a handler as a function.
type handlerFunc func(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error)

// answers returns a handler that always responds the same.
func answers(response *hook.HandlerResponse, err error) handlerFunc {
	return func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) { return response, err }
}

// startEnv starts a program on a server, until stop or the end of the test; do has its handlers by name.
func startEnv(s *server, p Program, transport http.RoundTripper, do map[string]handlerFunc) *bubbleEnv {
	w := &bubbleEnv{}
	for i := range p.Handlers {
		h := &p.Handlers[i]
		if h.Daemon != nil {
			continue
		}
		h.Do = hook.HandlerFunc(func(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			w.recordCall(n)
			if f := do[n.Handler]; f != nil {
				return f(ctx, n)
			}
			return &hook.HandlerResponse{}, nil
		})
	}
	tools := s.toolsFor(s.clientVia("http://server", transport), w)
	w.Controller = New(p, tools)
	end := lead(w.Controller)
	w.stop = sync.OnceFunc(func() {
		end()
		w.Close()
		tools.Store.Close()
		synctest.Wait()
	})
	s.t.Cleanup(w.stop)
	return w
}
