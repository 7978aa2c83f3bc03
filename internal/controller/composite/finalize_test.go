package composite

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// newTestBase returns a Base without watches.
func newTestBase(o controller.Observer) *controller.Base {
	return controller.New(&Controller{}, controller.Options{Observer: o, Log: slog.New(slog.DiscardHandler), Now: time.Now})
}

// eventCounter counts events.
type eventCounter int

func (*eventCounter) Ran(record.Run)                                {}
func (*eventCounter) Deleted(record.Run)                            {}
func (w *eventCounter) OwnEvent(o *object.Object, event hook.Event) { w.Event(o, event) }

func (w *eventCounter) Event(*object.Object, hook.Event) { *w++ }

// Conflicts are retried silently, but not forever: if they last, they are reported as a failure.
func TestConflictRetriesAreBounded(t *testing.T) {
	var reported eventCounter
	c := &Controller{
		Base: newTestBase(&reported), tools: Tools{Now: time.Now},
	}
	key := queue.Key{Name: "p"}
	parent, err := object.Parse([]byte(`{"kind":"Shop","metadata":{"name":"p","uid":"u"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := c.newRun(withMemory(c.NewRun(queue.Item{Key: key}, parent)))
	r.Record = record.New(record.Run{}, time.Now)
	for range controller.MaxConflicts {
		if outcome, _ := r.finish(t.Context(), controller.ErrConflict); outcome != record.Postponed || reported != 0 {
			t.Fatalf("%s, reported %d times", outcome, reported)
		}
	}
	if outcome, _ := r.finish(t.Context(), controller.ErrConflict); outcome != record.Failed || reported != 1 {
		t.Errorf("%s, reported %d times", outcome, reported)
	}
	if outcome, _ := r.finish(t.Context(), nil); outcome != record.Skipped || r.memory.Conflicts != 0 {
		t.Errorf("%s, still %d", outcome, r.memory.Conflicts)
	}
}

// A run that the end of its context interrupts has not failed: it records no "context canceled".
func TestInterruptedRunHasNoError(t *testing.T) {
	var reported eventCounter
	c := &Controller{Base: newTestBase(&reported), tools: Tools{Now: time.Now}}
	parent, err := object.Parse([]byte(`{"kind":"Shop","metadata":{"name":"p","uid":"u"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := c.newRun(withMemory(c.NewRun(queue.Item{Key: queue.Key{Name: "p"}}, parent)))
	r.Record = record.New(record.Run{}, time.Now)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	outcome, _ := r.finish(ctx, context.Canceled)
	if run := r.Record.Finish(outcome); outcome != record.Postponed || run.Err != nil {
		t.Errorf("%s: %v", outcome, run.Err)
	}
}

// A response cannot have its hook called at full speed.
func TestShortestResync(t *testing.T) {
	for requested, want := range map[time.Duration]time.Duration{0: 0, time.Nanosecond: minResync, minResync: minResync, time.Hour: time.Hour} {
		if got := resyncDelay(&hook.Response{ResyncAfter: requested}); got != want {
			t.Errorf("%s: again in %s, want %s", requested, got, want)
		}
	}
	if got := resyncDelay(nil); got != 0 {
		t.Errorf("without a response again in %s", got)
	}
}
