package engine

import (
	"log/slog"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// warnings counts what users are told.
type warnings int

func (*warnings) Ran(trace.Run)                     {}
func (*warnings) Deleted(trace.Run)                 {}
func (w *warnings) Tell(*object.Object, hook.Event) { *w++ }

// A run that meets changed objects is repeated without a word, but not for
// ever: what lasts is a failure, and is told.
func TestPatienceWithMovingObjectsEnds(t *testing.T) {
	var told warnings
	c := &Controller{
		tools: Tools{Observer: &told, Now: time.Now}, log: slog.New(slog.DiscardHandler),
		queue: queue.New(queue.Options{}), memories: newMemories(),
	}
	key := queue.Key{Name: "p"}
	parent, err := object.Parse([]byte(`{"kind":"Shop","metadata":{"name":"p","uid":"u"}}`))
	if err != nil {
		t.Fatal(err)
	}
	r := &run{Controller: c, item: queue.Item{Key: key}, memory: c.memories.of(key, "u"), stored: parent}
	for range patience {
		if outcome, _ := r.conclude(t.Context(), errMoved); outcome != trace.Postponed || told != 0 {
			t.Fatalf("%s, told %d times", outcome, told)
		}
	}
	if outcome, _ := r.conclude(t.Context(), errMoved); outcome != trace.Failed || told != 1 {
		t.Errorf("%s, told %d times", outcome, told)
	}
	if outcome, _ := r.conclude(t.Context(), nil); outcome != trace.Skipped || r.memory.moved != 0 {
		t.Errorf("%s, still %d", outcome, r.memory.moved)
	}
}
