package handler

import (
	"context"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// BenchmarkNothingToDo measures a run without pending calls.
func BenchmarkNothingToDo(b *testing.B) {
	t := &testing.T{}
	s := newServer(t)
	p := program(trigger.Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift}, Fields: [][]string{{"spec", "currency"}}, Do: noopHandler{}})
	st := &testEnv{server: s}
	c := New(p, s.tools(st))
	defer c.Close()
	s.create(rates, "eur", `{"metadata":{"labels":{"app":"rates","team":"money"}},"spec":{"currency":"EUR","note":"for the benchmark"},"status":{"rate":"1.19"}}`)
	for c.Len() == 0 {
		<-time.After(time.Millisecond)
	}
	for i := 0; b.Loop(); i++ {
		c.reconcile(b.Context(), queue.Item{Key: queue.Key{Namespace: "town", Name: "eur"}})
		if i == 0 {
			for stateIn(s.get(rates, "eur"))["h"].Digest == "" {
				b.Fatal("not handled")
			}
		}
	}
}

// noopHandler returns an empty response.
type noopHandler struct{}

func (noopHandler) Handle(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	return nil, nil
}
