package manager

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/manager/calls"
	"github.com/setpoint-dev/setpoint/internal/manager/controllers"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/manager/running"
	"github.com/setpoint-dev/setpoint/internal/manager/serving"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// withControllers adds controllers and webhooks to a Manager that has nothing else.
func withControllers(m *Manager) {
	m.InFlight, m.CRDs, m.options.Config = calls.NewInFlight(), crds.NewInstaller(crds.Options{}), &rest.Config{}
	m.Webhooks = newWebhooks(m)
	m.controllers = controllers.NewSet(m.dependencies)
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
	m := &Manager{dependencies: dependencies{Dependencies: running.Dependencies{Log: slog.New(slog.DiscardHandler), Metrics: serving.NewMetrics(),
		History: inspect.NewHistory(inspect.HistoryOptions{}, time.Now()), Recorders: &recording.Recorders{}}}}
	withControllers(m)
	key, review := queue.Key{Namespace: "kind", Name: "policy"}, admission.ReviewRecord{Program: "policy", Webhook: "no", Result: admission.Denied}
	m.Webhooks.Set(key, denyAllProgram("policy"))
	m.Webhooks.Reviewed(review)
	if runs := m.History.Stats().Runs; runs != 1 {
		t.Errorf("%d reviews in the history", runs)
	}
	m.Webhooks.Set(key, nil)
	m.History.Drop("policy")
	review.Err = errors.New("too late")
	m.Webhooks.Reviewed(review)
	if runs, calls := m.History.Stats().Runs, m.History.Calls("policy"); runs != 0 || len(calls) != 0 || m.Webhooks.Health("policy").HookFailing != 0 {
		t.Errorf("%d runs, calls %v, health %v of a deleted controller", runs, calls, m.Webhooks.Health("policy"))
	}
}

// A selector of which the webhook had no part, or only the last one, let it review controllers of other Setpoints.
func TestOnlyOwnControllersAreReviewed(t *testing.T) {
	for text, want := range map[string]string{
		"": "<none>", "team=web": "team in (web)", "team!=web": "team notin (web)", "a=1,a=2": "a in (1),a in (2)",
		"team in (web,db),!old": "!old,team in (db,web)",
	} {
		program := must.Get((&Manager{options: Options{Selector: text}}).codeReview()).In(t)
		got := "<none>"
		if objects := program.Webhooks[0].Objects; objects != nil {
			got = must.Get(metav1.LabelSelectorAsSelector(objects)).In(t).String()
		}
		if got != want {
			t.Errorf("%q: %s, want %s", text, got, want)
		}
	}
	if _, err := (&Manager{options: Options{Selector: "size>3"}}).codeReview(); err == nil {
		t.Error("a comparison is ignored")
	}
}
