package controllers

import (
	"context"
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
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
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
			greet := []trigger.Handler{{Name: "greet", Timeout: timeout, Do: s}}
			p := f.WrapHandlers(handler.Program{Name: "shop", Rules: trigger.Rules{Handlers: greet}})
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
	cs := newTestSet(running.Dependencies{Metrics: serving.NewMetrics(), Store: cache.New(nil, cache.Options{})})
	r := &running.Controller{Compiled: &compile.Compiled{Programs: []composite.Program{{Name: "shop"}}}, Dependencies: &cs.Dependencies.Dependencies}
	state := controllerState{key: queue.Key{Name: "shop"}, object: controllerObject(t, `{"name":"shop"}`), running: r}
	cs.registry.set(state)
	see := func(ok, healthy bool, metric string) {
		t.Helper()
		if got := state.ready(conditionState{ok: true}, r.Health()); got.ok != ok || !ok && (got.reason != setpoint.ReasonCallOverdue || got.message != what+" has not returned after its timeout of 10s") {
			t.Errorf("ready: %+v", got)
		}
		if err := cs.InFlight.CheckStuck(); (err == nil) != healthy {
			t.Errorf("healthy: %v", err)
		}
		if text := scrape(cs); !strings.Contains(text, `setpoint_calls_overdue{controller="shop"} `+metric) {
			t.Errorf("metrics: %s", text)
		}
	}
	release := make(chan struct{})
	go call(cs.InFlight, blockingHook{timeout, release})
	<-time.After(timeout)
	synctest.Wait()
	see(true, true, "0")
	<-time.After(calls.OverdueAfter + time.Second)
	see(false, true, "1")
	<-time.After(calls.StuckAfter)
	see(false, false, "1")
	close(release)
	synctest.Wait()
	see(true, true, "0")
}

func scrape(cs *Set) string {
	registry := prometheus.NewRegistry()
	registry.MustRegister(&serving.Collector{Cache: cs.Store, Controllers: cs.Gauges})
	w := httptest.NewRecorder()
	promhttp.HandlerFor(registry, promhttp.HandlerOpts{}).ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/metrics", http.NoBody))
	return w.Body.String()
}
