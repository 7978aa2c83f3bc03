package calls

import (
	"context"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Calls without a timeout are never overdue: daemons, and Go functions without a limit.
func TestCallsWithoutTimeout(t *testing.T) {
	f := NewInFlight()
	do := hook.HandlerFunc(func(context.Context, *hook.HandlerRequest) (*hook.HandlerResponse, error) {
		if len(f.pastTimeout(-time.Hour)) > 0 {
			t.Error("it is tracked")
		}
		return &hook.HandlerResponse{}, nil
	})
	p := f.WrapHandlers(handler.Program{Rules: trigger.Rules{Handlers: []trigger.Handler{{Name: "daemon"}, {Name: "greet", Do: do}}}})
	if p.Handlers[0].Do != nil {
		t.Error("a daemon has become a handler")
	}
	must.Get(p.Handlers[1].Do.Handle(t.Context(), nil)).In(t)
	if program := f.WrapProgram(composite.Program{}); program.Sync != nil || program.Finalize != nil || program.Customize != nil {
		t.Error("a program without hooks has some")
	}
}
