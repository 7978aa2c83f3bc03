package manager

import (
	"context"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
)

// Fault S1: the process is unhealthy while a call that ignores its context holds a worker for long.
func TestStuckCallsAreUnhealthy(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := &Manager{dependencies: dependencies{Dependencies: running.Dependencies{Log: slog.New(slog.DiscardHandler), Metrics: serving.NewMetrics(), InFlight: calls.NewInFlight()}}}
		healthz := func(want int) {
			t.Helper()
			w := httptest.NewRecorder()
			options := m.endpoints()
			options.Handler().ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/healthz", http.NoBody))
			if w.Code != want {
				t.Errorf("/healthz: %d, want %d", w.Code, want)
			}
		}
		release := make(chan struct{})
		do := hook.HandlerFunc(func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			<-release
			return &hook.HandlerResponse{}, nil
		})
		greet := []trigger.Handler{{Name: "greet", Timeout: time.Second, Do: do}}
		p := m.InFlight.WrapHandlers(handler.Program{Name: "shop", Rules: trigger.Rules{Handlers: greet}})
		go func() { _, _ = p.Handlers[0].Do.Handle(context.Background(), nil) }()
		<-time.After(2 * time.Second)
		healthz(http.StatusOK)
		<-time.After(calls.StuckAfter)
		healthz(http.StatusServiceUnavailable)
		close(release)
		synctest.Wait()
		healthz(http.StatusOK)
	})
}
