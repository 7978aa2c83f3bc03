package react

import (
	"context"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// BenchmarkNothingToDo is a run that finds all dealt with.
func BenchmarkNothingToDo(b *testing.B) {
	t := &testing.T{}
	s := newServer(t)
	p := program(Handler{Name: "h", On: []hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift}, Fields: [][]string{{"spec", "currency"}}, Do: silent{}})
	st := &stage{server: s}
	c := New(p, s.tools(st))
	defer c.Close()
	s.create(rates, "eur", `{"metadata":{"labels":{"app":"rates","team":"money"}},"spec":{"currency":"EUR","note":"for the benchmark"},"status":{"rate":"1.19"}}`)
	for c.countObjects() == 0 {
		<-time.After(time.Millisecond)
	}
	for i := 0; b.Loop(); i++ {
		c.reconcile(b.Context(), queue.Item{Key: queue.Key{Namespace: "town", Name: "eur"}})
		if i == 0 {
			for recordIn(s.get(rates, "eur"))["h"].Seen == "" {
				b.Fatal("not handled")
			}
		}
	}
}

// silent answers nothing.
type silent struct{}

func (silent) Handle(context.Context, *hook.Notice) (*hook.Answer, error) { return nil, nil }
