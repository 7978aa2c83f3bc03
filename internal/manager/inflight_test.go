package manager

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
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// blockingHook implements all kinds of hooks and ignores its context.
type blockingHook struct {
	timeout time.Duration
	release chan struct{}
}

func (s blockingHook) Timeout() time.Duration { return s.timeout }

func (s blockingHook) Call(context.Context, *hook.Request) (*hook.Response, error) {
	<-s.release
	return &hook.Response{}, nil
}

func (s blockingHook) Customize(context.Context, *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	<-s.release
	return &hook.CustomizeResponse{}, nil
}

func (s blockingHook) Handle(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	<-s.release
	return &hook.HandlerResponse{}, nil
}

func (s blockingHook) Admit(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
	<-s.release
	return &hook.ReviewResponse{}, nil
}

// Fault S1: a call past its timeout blocked a worker or a review while the controller was
// Ready and the process healthy.
func TestOverdueCalls(t *testing.T) {
	const timeout = 10 * time.Second
	for what, call := range map[string]func(*calls.InFlight, blockingHook){
		"the sync hook": func(f *calls.InFlight, s blockingHook) {
			_, _ = f.WrapProgram(composite.Program{Name: "shop", Sync: s}).Sync.Call(context.Background(), nil)
		},
		"the finalize hook": func(f *calls.InFlight, s blockingHook) {
			_, _ = f.WrapProgram(composite.Program{Name: "shop", Finalize: s}).Finalize.Call(context.Background(), nil)
		},
		"the customize hook": func(f *calls.InFlight, s blockingHook) {
			_, _ = f.WrapProgram(composite.Program{Name: "shop", Customize: s}).Customize.Customize(context.Background(), nil)
		},
		"the handler greet": func(f *calls.InFlight, s blockingHook) {
			s.timeout = time.Hour // The handler's own goes before.
			p := f.WrapHandlers(handler.Program{Name: "shop", Handlers: []handler.Handler{{Name: "greet", Timeout: timeout, Do: s}}})
			_, _ = p.Handlers[0].Do.Handle(context.Background(), nil)
		},
		"the review limit": func(f *calls.InFlight, s blockingHook) {
			p := f.WrapReviews(&admission.Program{Name: "shop", Webhooks: []admission.Webhook{{Name: "limit", Timeout: timeout, Admitter: s}}})
			_, _ = p.Webhooks[0].Admitter.Admit(context.Background(), nil)
		},
	} {
		t.Run(what, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testOverdue(t, what, timeout, call) }) })
	}
}

func testOverdue(t *testing.T, what string, timeout time.Duration, call func(*calls.InFlight, blockingHook)) {
	t.Helper()
	m := &Manager{log: slog.New(slog.DiscardHandler), metrics: serving.NewMetrics(), store: cache.New(nil, cache.Options{})}
	newTestControllers(m)
	r := &runningController{Compiled: &compile.Compiled{Programs: []composite.Program{{Name: "shop"}}}, inFlight: m.inFlight}
	state := controllerState{object: controllerObject(t, `{"name":"shop"}`), running: r}
	m.controllers.entries[queue.Key{Name: "shop"}] = &controllerEntry{controllerState: state}
	see := func(ok bool, healthz int, metric string) {
		t.Helper()
		if got := readyCondition(conditionState{ok: true}, &state, r.health()); got.ok != ok || !ok && (got.reason != setpoint.ReasonCallOverdue || got.message != what+" has not returned after its timeout of 10s") {
			t.Errorf("ready: %+v", got)
		}
		if code := getHealth(m, "/healthz"); code != healthz {
			t.Errorf("/healthz: %d", code)
		}
		if text := scrape(m); !strings.Contains(text, `setpoint_calls_overdue{controller="shop"} `+metric) {
			t.Errorf("metrics: %s", text)
		}
	}
	release := make(chan struct{})
	go call(m.inFlight, blockingHook{timeout, release})
	<-time.After(timeout)
	synctest.Wait()
	see(true, http.StatusOK, "0")
	<-time.After(calls.OverdueAfter + time.Second)
	see(false, http.StatusOK, "1")
	<-time.After(calls.StuckAfter)
	see(false, http.StatusServiceUnavailable, "1")
	close(release)
	synctest.Wait()
	see(true, http.StatusOK, "0")
}

func getHealth(m *Manager, path string) int {
	w := httptest.NewRecorder()
	options := m.serving()
	options.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, path, http.NoBody))
	return w.Code
}

func scrape(m *Manager) string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&serving.Collector{Cache: m.store, Controllers: m.controllers.gauges})
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	return w.Body.String()
}
