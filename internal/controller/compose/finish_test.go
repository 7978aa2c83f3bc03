package compose

import (
	"log/slog"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// eventCounter counts what users are told.
type eventCounter int

func (*eventCounter) Ran(record.Run)                     {}
func (*eventCounter) Deleted(record.Run)                 {}
func (w *eventCounter) Event(*object.Object, hook.Event) { *w++ }

// A run that meets changed objects is repeated without a word, but not for
// ever: what lasts is a failure, and is told.
func TestConflictRetriesAreBounded(t *testing.T) {
	var reported eventCounter
	c := &Controller{
		tools: Tools{Observer: &reported, Now: time.Now}, log: slog.New(slog.DiscardHandler),
		queue: queue.New(queue.Options{}), memories: newMemories(),
	}
	key := queue.Key{Name: "p"}
	parent, err := object.Parse([]byte(`{"kind":"Shop","metadata":{"name":"p","uid":"u"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Controller: c, item: queue.Item{Key: key}, memory: c.memories.get(key, "u"), stored: parent}
	for range maxConflicts {
		if outcome, _ := r.finish(t.Context(), errConflict); outcome != record.Postponed || reported != 0 {
			t.Fatalf("%s, told %d times", outcome, reported)
		}
	}
	if outcome, _ := r.finish(t.Context(), errConflict); outcome != record.Failed || reported != 1 {
		t.Errorf("%s, told %d times", outcome, reported)
	}
	if outcome, _ := r.finish(t.Context(), nil); outcome != record.Skipped || r.memory.conflicts != 0 {
		t.Errorf("%s, still %d", outcome, r.memory.conflicts)
	}
}
