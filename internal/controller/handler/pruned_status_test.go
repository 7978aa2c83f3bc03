package handler

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
)

// A field of the status that the schema does not have is reported once, and stored once the schema has it, without
// another call of the handler: at the latest ten minutes later, or when a user asks.
func TestPrunedStatusIsWrittenAgain(t *testing.T) {
	for name, asks := range map[string]bool{"later": false, "a user asks": true} {
		t.Run(name, func(t *testing.T) { synctest.Test(t, func(t *testing.T) { testPrunedStatus(t, asks) }) })
	}
}

func testPrunedStatus(t *testing.T, asks bool) {
	s := newBubbleServer(t)
	s.admit = func(_ string, o map[string]any) {
		if status, is := o["status"].(map[string]any); is {
			delete(status, "late")
		}
	}
	w := startEnv(s, program(Handler{Name: "h", On: []hook.Reason{onCreate}}), s, map[string]handlerFunc{
		"h": func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			return &hook.HandlerResponse{Status: []byte(`{"ready":true,"late":1}`)}, nil
		},
	})
	defer w.stop()
	s.create(rates, "eur", `{"spec":{"n":1}}`)
	pass(time.Hour)
	if events := strings.Join(w.eventLines(), "\n"); strings.Count(events, controller.ReasonStatusPruned) != 1 || !strings.Contains(events, "status.late") {
		t.Errorf("events %q", events)
	}
	if writes := len(s.wrote("PATCH")); writes > 10 {
		t.Errorf("%d writes in an hour", writes)
	}
	s.set(func() { s.admit = nil })
	if asks {
		s.edit(rates, "eur", `{"metadata":{"annotations":{"setpoint.dev/reconcile-at":"now"}}}`)
		pass(time.Second)
	} else {
		pass(controller.PrunedRetry)
	}
	if status := text(s.get(rates, "eur")["status"]); !strings.Contains(status, `"late":1`) || len(w.callsOf("h", "")) != 1 {
		t.Errorf("left %s after %d calls", status, len(w.callsOf("h", "")))
	}
	writes := len(s.wrote(""))
	pass(time.Hour)
	if more := len(s.wrote("")) - writes; more > 0 {
		t.Errorf("%d more writes", more)
	}
}
