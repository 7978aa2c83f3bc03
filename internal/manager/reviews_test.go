package manager

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// withControllers adds controllers and webhooks to a Manager that has nothing else.
func withControllers(m *Manager) {
	m.inFlight, m.crds, m.options.Config = calls.NewInFlight(), crds.NewInstaller(crds.Options{}), &rest.Config{}
	m.webhooks = newWebhooks(m)
	m.controllers = controllers.New(m.shared())
}

// denyAllProgram denies all requests.
func denyAllProgram(name string) *admission.Program {
	return &admission.Program{Name: name, Configuration: "setpoint-" + name, Webhooks: []admission.Webhook{{
		Name: "no",
		Admitter: hook.AdmitterFunc(func(context.Context, *hook.ReviewRequest) (*hook.ReviewResponse, error) {
			return &hook.ReviewResponse{Denial: &hook.Denial{Message: "never"}}, nil
		}),
	}}}
}

// A review in flight while its controller is deleted leaves nothing in memory.
func TestWebhookServerDropsRemovedControllers(t *testing.T) {
	m := &Manager{log: slog.New(slog.DiscardHandler), metrics: serving.NewMetrics(), history: inspect.NewHistory(inspect.HistoryOptions{}, time.Now())}
	withControllers(m)
	key, review := queue.Key{Namespace: "kind", Name: "policy"}, admission.ReviewRecord{Program: "policy", Webhook: "no", Result: admission.Denied}
	m.webhooks.Set(key, denyAllProgram("policy"))
	m.webhooks.Reviewed(review)
	if runs := m.history.Stats().Runs; runs != 1 {
		t.Errorf("%d reviews in the history", runs)
	}
	m.webhooks.Set(key, nil)
	m.history.Drop("policy")
	review.Err = errors.New("too late")
	m.webhooks.Reviewed(review)
	if runs, calls := m.history.Stats().Runs, m.history.Calls("policy"); runs != 0 || len(calls) != 0 || m.webhooks.Health("policy").HookFailing != 0 {
		t.Errorf("%d runs, calls %v, health %v of a deleted controller", runs, calls, m.webhooks.Health("policy"))
	}
}
