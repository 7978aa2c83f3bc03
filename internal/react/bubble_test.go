package react

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
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// In a bubble of synctest there is no network: the server is reached by its transport,
// and the clock goes on when all goroutines wait.

// newBubbleServer is a server without a network.
func newBubbleServer(t *testing.T) *server {
	return &server{t: t, version: 1, objects: map[string]map[string]any{}, moved: make(chan struct{})}
}

// RoundTrip makes the server a transport.
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

// stream answers a watch, until its context ends or its body is closed.
func (s *server) stream(r *http.Request) *http.Response {
	ctx, cancel := context.WithCancel(r.Context())
	from, to := io.Pipe()
	go func() {
		defer cancel()
		s.watch(&streamed{PipeWriter: to}, r.WithContext(ctx))
		_ = to.CloseWithError(io.EOF)
	}()
	return &http.Response{
		StatusCode: http.StatusOK, Header: http.Header{"Content-Type": {"application/json"}}, Body: &closing{from, cancel}, Request: r,
	}
}

type streamed struct{ *io.PipeWriter }

func (*streamed) Header() http.Header { return http.Header{} }
func (*streamed) WriteHeader(int)     {}
func (*streamed) Flush()              {}

type closing struct {
	*io.PipeReader
	cancel context.CancelFunc
}

func (c *closing) Close() error {
	c.cancel()
	return c.PipeReader.Close()
}

// elapse lets time of the bubble pass.
func elapse(d time.Duration) { <-time.After(d) }

// called is one call of a handler, when it began.
type called struct {
	handler, object string
	reason          hook.Reason
	attempt         int
	at              time.Time
}

// workshop is a controller at work in a bubble, and what it did.
type workshop struct {
	*Controller

	mu     sync.Mutex
	calls  []called
	events []string
	stop   func()
}

func (w *workshop) Ran(trace.Run) {}

func (w *workshop) Deleted(trace.Run) {}

func (w *workshop) Handled(string, string, hook.Reason, time.Duration, error) {}

func (w *workshop) Tell(o *object.Object, e hook.Event) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.events = append(w.events, o.Name()+" "+e.Reason+" "+e.Message)
}

func (w *workshop) note(n *hook.Notice) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, called{n.Handler, n.Name, n.Reason, n.Attempt, time.Now()})
}

// made are the calls of a handler so far, for one object or for all.
func (w *workshop) made(handler, object string) []called {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.DeleteFunc(slices.Clone(w.calls), func(c called) bool {
		return c.handler != handler || object != "" && c.object != object
	})
}

func (w *workshop) told() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return slices.Clone(w.events)
}

// handled is a handler of a workshop.
type handled func(ctx context.Context, n *hook.Notice) (*hook.Answer, error)

// open starts a program on a server; its handlers are functions, by name.
func open(s *server, p Program, transport http.RoundTripper, do map[string]handled) *workshop {
	w := &workshop{}
	for i := range p.Handlers {
		h := &p.Handlers[i]
		if h.Daemon != nil {
			continue
		}
		h.Do = hook.HandlerFunc(func(ctx context.Context, n *hook.Notice) (*hook.Answer, error) {
			w.note(n)
			if f := do[n.Handler]; f != nil {
				return f(ctx, n)
			}
			return &hook.Answer{}, nil
		})
	}
	tools := s.toolsOf(s.clientBy("http://server", transport), w)
	w.Controller = New(p, tools)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan struct{})
	go func() { defer close(ended); w.Run(ctx) }()
	w.stop = sync.OnceFunc(func() {
		cancel()
		<-ended
		w.Close()
		tools.Store.Close()
		synctest.Wait()
	})
	return w
}
