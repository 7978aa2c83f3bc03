package recording

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

func runOf(controller, kind, namespace, name string) *record.Run {
	return &record.Run{
		Controller: controller, Object: object.Ref{Kind: object.Kind{Version: "v1", Kind: kind, Namespaced: true}, Namespace: namespace, Name: name},
		Outcome: record.Synced, Queued: queue.NewCauses(queue.Cause{Kind: queue.ParentChanged}),
		Steps: []record.Step{{Call: syncCall(`{"name":"`+name+`"}`, `{}`, `{}`), Took: time.Second}, {Write: &record.Write{}}},
	}
}

// recorded returns what a recorder writes of some runs.
func recorded(t *testing.T, f Filter, runs ...*record.Run) (*Reader, []*Call) {
	t.Helper()
	var file bytes.Buffer
	r := NewRecorder(f)
	for _, run := range runs {
		r.Ran(run)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	must.Succeed(t, r.Record(ended, NewStream(&file, segment)))
	reader := NewReader(&file)
	var calls []*Call
	for {
		call, err := reader.Next()
		if err != nil {
			return reader, calls
		}
		calls = append(calls, call)
	}
}

func TestRecorder(t *testing.T) {
	_, calls := recorded(t, Filter{}, runOf("c", "Team", "shop", "red"), &record.Run{Controller: "c"})
	if len(calls) != 1 {
		t.Fatalf("%d calls", len(calls))
	}
	c := calls[0]
	if c.String() != "sync of Team shop/red" || c.Controller != "c" || c.Process != "setpoint" || c.Duration != time.Second || c.Outcome != "synced" || fmt.Sprint(c.Causes) != "[the object changed]" {
		t.Errorf("got %+v", c)
	}
}

func TestFilter(t *testing.T) {
	team := object.Kind{Version: "v1", Kind: "Team"}
	for _, c := range []struct {
		Filter
		want string
	}{
		{Filter{}, "a b c d"}, {Filter{Controller: "one"}, "a b c"}, {Filter{Controller: "c.x/one"}, "a b c"}, {Filter{Kind: team}, "a b d"}, {Filter{Namespace: "shop"}, "a c d"},
		{Filter{Kind: team, Namespace: "shop", Name: "a"}, "a"}, {Filter{Controller: "no"}, ""},
	} {
		_, calls := recorded(t, c.Filter, runOf("c.x/one", "Team", "shop", "a"), runOf("c.x/one", "Team", "web", "b"), runOf("c.x/one", "Pod", "shop", "c"), runOf("two", "Team", "shop", "d"))
		got := lists.Map(calls, func(call *Call) string { return call.Object.Name })
		if strings.Join(got, " ") != c.want {
			t.Errorf("%+v: %q, want %s", c.Filter, got, c.want)
		}
	}
}

// A reconcile never waits for a recorder: what is too much is dropped, and counted.
func TestRecorderDropsAndCounts(t *testing.T) {
	runs := make([]*record.Run, maxQueuedRuns+3)
	for i := range runs {
		runs[i] = runOf("c", "Team", "shop", "red")
	}
	if r, calls := recorded(t, Filter{}, runs...); len(calls) != maxQueuedRuns || r.Totals.Dropped != 3 {
		t.Errorf("%d calls, %+v", len(calls), r.Totals)
	}
	half := `{"a":"` + strings.Repeat("x", maxQueuedBytes/2) + `"}`
	large := runOf("c", "Team", "shop", "red")
	large.Steps[0].Call = syncCall(half, `{}`, half)
	if r, calls := recorded(t, Filter{}, large, large); len(calls) != 1 || r.Totals.Dropped != 1 {
		t.Errorf("%d large calls, %+v", len(calls), r.Totals)
	}
}

func TestRecorderEndsOnErrors(t *testing.T) {
	r := NewRecorder(Filter{})
	r.Ran(runOf("c", "Team", "shop", "red"))
	if err := r.Record(t.Context(), NewStream(&full{50}, segment)); err == nil || errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
}

// Without a recorder a run costs nothing.
func TestNoRecorderAllocatesNothing(t *testing.T) {
	var all Recorders
	run := runOf("c", "Team", "shop", "red")
	if n := testing.AllocsPerRun(100, func() { all.Ran(run) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	r := NewRecorder(Filter{Namespace: "other"})
	remove := all.Add(r)
	all.Ran(run)
	remove()
	if len(all.list()) > 0 || len(r.queue) > 0 {
		t.Error("a removed recorder is still there")
	}
}

func BenchmarkNoRecorder(b *testing.B) {
	var all Recorders
	run := runOf("c", "Team", "shop", "red")
	b.ReportAllocs()
	for b.Loop() {
		all.Ran(run)
	}
}

// BenchmarkRecord measures what one call costs whose parent and response are new each time.
func BenchmarkRecord(b *testing.B) {
	r, stream := NewRecorder(Filter{}), NewStream(&bytes.Buffer{}, segment)
	filler := strings.Repeat(`"name":"value of a typical field",`, 20)
	b.ReportAllocs()
	for i := range b.N {
		run := runOf("c", "Team", "shop", "red")
		run.Steps[0].Call = syncCall(fmt.Sprintf(`{%s"n":%d}`, filler, i), fmt.Sprintf(`{%s"n":%d}`, filler, i/2), fmt.Sprintf(`{%s"n":%d}`, filler, i/2))
		must.Succeed(b, r.write(stream, queuedRun{Run: *run}))
	}
}
