package composite

import (
	"encoding/json"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// A field of the status that the schema does not have is reported once, and stored once the schema has it.
func TestPrunedStatusIsWrittenAgain(t *testing.T) {
	for name, c := range map[string]struct {
		mark  plan.Mark
		cause queue.CauseKind
		wait  bool
	}{
		"composite, a user asks": {plan.Mark{}, queue.ReconcileRequested, false},
		"composite, later":       {plan.Mark{}, queue.RequeueAfter, true},
		"decorator, a user asks": {plan.Mark{Key: "d", Value: "d"}, queue.ReconcileRequested, false},
		"decorator, later":       {plan.Mark{Key: "d", Value: "d"}, queue.RequeueAfter, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":1},"spec":{}}`)
			s.prune = func(status map[string]any) { delete(status, "late") }
			b := &statusHook{respond: func(int, *hook.Request) *hook.Response {
				return &hook.Response{Status: json.RawMessage(`{"late":1,"ready":true}`)}
			}}
			shops := shopsOf(t, s, Program{Sync: b, Mark: c.mark})
			shops.run(queue.Start)
			shops.run(queue.Resync)
			if events := strings.Count(strings.Join(shops.events, "\n"), controller.ReasonStatusPruned); events != 1 {
				t.Errorf("%d events: %q", events, shops.events)
			}
			s.prune = nil
			shops.run(queue.Resync)
			if status := s.stored("shops/a", "status"); strings.Contains(status, "late") {
				t.Errorf("%s, although no user asked", status)
			}
			if c.wait {
				shops.clockOffset += controller.PrunedRetry
			}
			shops.run(c.cause)
			if status := s.stored("shops/a", "status"); !strings.Contains(status, `"late":1`) {
				t.Errorf("left %s", status)
			}
			s.wrote()
			shops.clockOffset += controller.PrunedRetry
			shops.run(queue.Resync)
			if wrote := s.wrote(); wrote != "" {
				t.Errorf("then wrote %s", wrote)
			}
		})
	}
}

// What Setpoint itself adds to a status is nothing that an author could leave out: only what the response has is reported.
func TestPrunedStatusOfSetpoint(t *testing.T) {
	decorator := plan.Mark{Key: "d", Value: "d"}
	for name, c := range map[string]struct {
		mark          plan.Mark
		returns, want string
	}{
		"nothing of the hook":         {plan.Mark{}, `{"ready":true}`, ""},
		"a later field of the hook":   {plan.Mark{}, `{"ready":true,"zone":"a"}`, "status.zone was not stored"},
		"its own kind of condition":   {plan.Mark{}, `{"conditions":[{"type":"Open","status":"True"}]}`, "status.conditions was not stored"},
		"a condition like Setpoint's": {plan.Mark{}, `{"conditions":[{"type":"Synced","status":"True"}]}`, "status.conditions was not stored"},
		"what a decorator returns":    {decorator, `{"observedGeneration":1}`, "status.observedGeneration was not stored"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newCluster(t, newShop)
			s.prune = func(status map[string]any) {
				for _, field := range [...]string{"observedGeneration", "conditions", "zone"} {
					delete(status, field)
				}
			}
			b := &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{Status: json.RawMessage(c.returns)} }}
			shops := shopsOf(t, s, Program{Sync: b, Mark: c.mark, Conditions: c.mark == plan.Mark{}})
			shops.run(queue.Start)
			events := strings.Join(shops.events, "\n")
			if reported := strings.Contains(events, controller.ReasonStatusPruned); reported != (c.want != "") || !strings.Contains(events, c.want) {
				t.Errorf("%q, want %q", shops.events, c.want)
			}
		})
	}
}
