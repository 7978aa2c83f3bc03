package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/inspect"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/react"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// clerk is keeper, with a handler of shops beside its hook.
func clerk(name string) Own {
	own := keeper(name)
	return Own{Name: name, Compile: func(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
		compiled, err := own.Compile(ctx, env)
		if err != nil {
			return nil, err
		}
		do := hook.HandlerFunc(func(context.Context, *hook.Notice) (*hook.Answer, error) { return &hook.Answer{}, nil })
		compiled.Reactions = []react.Program{{
			Name: name, Resource: compiled.Programs[0].Parent, Record: "example.org/handled", Workers: 1,
			Handlers: []react.Handler{{Name: "greet", On: []hook.Reason{hook.ReasonCreate}, Do: do}},
		}}
		return compiled, nil
	}}
}

// Hooks and handlers of one controller are one member, which stops as a whole when
// its kind changes, and is not begun anew while it does not.
func TestHooksAndHandlersAreOneMember(t *testing.T) {
	h := opened(t, &town{}, Options{Own: []Own{clerk("clerk")}, Definitions: [][]byte{[]byte(shopsDefinition)}})
	until(t, "ready", func() bool { return readyz(h) == "ok" })
	r := h.fleet.atWork()[0]
	if len(r.controllers) != 2 || !r.uses(shopsCRD) || r.uses("others.example.org") || fmt.Sprint(r.resources()) != "[example.org/v1/shops example.org/v1/shops]" {
		t.Errorf("%d programs of %v", len(r.controllers), r.resources())
	}
	again := &compile.Compiled{Programs: slices.Clone(r.Programs), Reactions: slices.Clone(r.Reactions)}
	if !r.same(again) {
		t.Error("is not what it is")
	}
	again.Reactions[0].Resource.Status = false
	if r.same(again) {
		t.Error("is the same although its kind is another one")
	}
}

// The figures of handlers are there, without the names of objects, until the
// controller goes.
func TestMetricsOfHandlers(t *testing.T) {
	m := newMetrics()
	o := observer{metrics: m, book: inspect.NewBook(inspect.BookOptions{}, time.Now())}
	o.Ran(trace.Run{Program: "clerk", Outcome: trace.Postponed, Waited: time.Second, Took: time.Second})
	for _, err := range []error{
		nil, errors.New("no"), fmt.Errorf("handle: %w", &hook.RetryAfterError{Err: errors.New("later")}),
		&hook.TerminalError{Err: errors.New("never")}, fmt.Errorf("handle: %w", context.DeadlineExceeded),
	} {
		o.Handled("clerk", "greet", hook.ReasonCreate, time.Second, err)
	}
	const want = `setpoint_handler_calls_total error, setpoint_handler_calls_total ok, setpoint_handler_calls_total retry, ` +
		`setpoint_handler_calls_total terminal, setpoint_handler_calls_total timeout, setpoint_syncs_total postponed`
	if got := counted(t, m); got != want {
		t.Errorf("got %s", got)
	}
	m.forget("clerk")
	if got := counted(t, m); got != "" {
		t.Errorf("left %s", got)
	}
}

// counted are the counters that were used, by outcome.
func counted(t *testing.T, m *metrics) string {
	t.Helper()
	families, err := m.registry.Gather()
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, family := range families {
		for _, metric := range family.GetMetric() {
			for _, label := range metric.GetLabel() {
				if label.GetName() == "outcome" {
					found[family.GetName()+" "+label.GetValue()] = true
				}
			}
		}
	}
	return strings.Join(slices.Sorted(maps.Keys(found)), ", ")
}

// What is to be said of handlers is said in the words that hooks have, all of it.
func TestHealthOfSeveralPrograms(t *testing.T) {
	at := time.Unix(9, 0)
	r := &running{controllers: []worker{
		still{engine.Health{Synced: true, Parents: 1, InError: 1, Last: engine.LastError{Message: "first", Time: at}}},
		still{engine.Health{Synced: true, Parents: 2, Children: 3, HookFailing: 1, HookMessage: "no", WatchErrors: map[string]error{"pods": errors.New("x")},
			Last: engine.LastError{Message: "second", Time: at.Add(1)}}},
	}}
	h := r.health()
	if !h.Synced || h.Parents != 3 || h.Children != 3 || h.InError != 1 || h.HookMessage != "no" || len(h.WatchErrors) != 1 || h.Last.Message != "second" {
		t.Errorf("%+v", h)
	}
}

// still is a worker that does nothing, in some health.
type still struct{ health engine.Health }

func (s still) Run(context.Context)     {}
func (s still) RetryNow()               {}
func (s still) RetryWrites()            {}
func (s still) SyncAll(queue.CauseKind) {}
func (s still) Health() engine.Health   { return s.health }
func (s still) Close()                  {}
