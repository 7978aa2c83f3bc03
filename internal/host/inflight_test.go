package host

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/react"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// stubborn is a hook of every sort that ignores its context.
type stubborn struct {
	timeout time.Duration
	release chan struct{}
}

func (s stubborn) Timeout() time.Duration { return s.timeout }

func (s stubborn) Call(context.Context, *hook.Request) (*hook.Response, error) {
	<-s.release
	return &hook.Response{}, nil
}

func (s stubborn) Customize(context.Context, *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	<-s.release
	return &hook.CustomizeResponse{}, nil
}

func (s stubborn) Handle(context.Context, *hook.Notice) (*hook.Answer, error) {
	<-s.release
	return &hook.Answer{}, nil
}

func (s stubborn) Admit(context.Context, *hook.Review) (*hook.Verdict, error) {
	<-s.release
	return &hook.Verdict{}, nil
}

// Fault S1: a call that was kept past its timeout held a worker or a review, and the
// controller was Ready, and the process healthy.
func TestOverdueCalls(t *testing.T) {
	const timeout = 10 * time.Second
	for what, call := range map[string]func(*inFlight, stubborn){
		"the sync hook": func(f *inFlight, s stubborn) {
			_, _ = f.program(engine.Program{Name: "shop", Sync: s}).Sync.Call(context.Background(), nil)
		},
		"the finalize hook": func(f *inFlight, s stubborn) {
			_, _ = f.program(engine.Program{Name: "shop", Finalize: s}).Finalize.Call(context.Background(), nil)
		},
		"the customize hook": func(f *inFlight, s stubborn) {
			_, _ = f.program(engine.Program{Name: "shop", Customize: s}).Customize.Customize(context.Background(), nil)
		},
		"the handler greet": func(f *inFlight, s stubborn) {
			s.timeout = time.Hour // The handler's own goes before.
			p := f.reaction(react.Program{Name: "shop", Handlers: []react.Handler{{Name: "greet", Timeout: timeout, Do: s}}})
			_, _ = p.Handlers[0].Do.Handle(context.Background(), nil)
		},
		"the review limit": func(f *inFlight, s stubborn) {
			p := f.admission(&admission.Program{Name: "shop", Webhooks: []admission.Webhook{{Name: "limit", Timeout: timeout, Do: s}}})
			_, _ = p.Webhooks[0].Do.Admit(context.Background(), nil)
		},
	} {
		t.Run(what, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testOverdue(t, what, timeout, call) }) })
	}
}

func testOverdue(t *testing.T, what string, timeout time.Duration, call func(*inFlight, stubborn)) {
	t.Helper()
	h := &Host{log: slog.New(slog.DiscardHandler), store: store.New(nil, store.Options{})}
	fleetOf(h)
	r := &running{Compiled: &compile.Compiled{Programs: []engine.Program{{Name: "shop"}}}, inFlight: h.inFlight}
	state := state{object: controllerObject(t, `{"name":"shop"}`), running: r}
	h.fleet.members[queue.Key{Name: "shop"}] = &member{state: state}
	see := func(ok bool, healthz int, metric string) {
		t.Helper()
		if got := ready(finding{ok: true}, &state, r.health()); got.ok != ok || !ok && (got.reason != setpoint.ReasonCallOverdue || got.message != what+" has not returned, although its timeout of 10s is over") {
			t.Errorf("ready: %+v", got)
		}
		if code := getHealth(h, "/healthz"); code != healthz {
			t.Errorf("/healthz: %d", code)
		}
		if text := scrape(h); !strings.Contains(text, `setpoint_calls_overdue{controller="shop"} `+metric) {
			t.Errorf("metrics: %s", text)
		}
	}
	release := make(chan struct{})
	go call(h.inFlight, stubborn{timeout, release})
	<-time.After(timeout)
	synctest.Wait()
	see(true, http.StatusOK, "0")
	<-time.After(overdueAfter + time.Second)
	see(false, http.StatusOK, "1")
	<-time.After(stuckAfter)
	see(false, http.StatusServiceUnavailable, "1")
	close(release)
	synctest.Wait()
	see(true, http.StatusOK, "0")
}

func getHealth(h *Host, path string) int {
	w := httptest.NewRecorder()
	h.health().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Code
}

func scrape(h *Host) string {
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(&scraped{cached: h.store, running: h.fleet})
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	return w.Body.String()
}

// What has no timeout is not said to be late: a daemon, or a Go function that may take
// as long as it wants.
func TestCallsWithoutTimeout(t *testing.T) {
	f := newInFlight()
	do := hook.HandlerFunc(func(context.Context, *hook.Notice) (*hook.Answer, error) {
		if len(f.calls) > 0 {
			t.Error("it is noted")
		}
		return &hook.Answer{}, nil
	})
	p := f.reaction(react.Program{Handlers: []react.Handler{{Name: "daemon"}, {Name: "greet", Do: do}}})
	if p.Handlers[0].Do != nil {
		t.Error("a daemon has become a handler")
	}
	if _, err := p.Handlers[1].Do.Handle(t.Context(), nil); err != nil {
		t.Error(err)
	}
	if program := f.program(engine.Program{}); program.Sync != nil || program.Finalize != nil || program.Customize != nil {
		t.Error("a program without hooks has some")
	}
}
