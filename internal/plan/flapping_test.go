package plan

import (
	"fmt"
	"runtime"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/heaptest"
	"github.com/setpoint-dev/setpoint/internal/object"
)

func TestFlapping(t *testing.T) {
	config := object.Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	child := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","namespace":"town","uid":"u"}}`)
	update := func(desired uint64, reason string) Action {
		return Action{Verb: Update, Resource: config, Ref: child.Ref(), Before: child, Desired: desired, Reason: reason}
	}
	same := update(1, "data.a differs")
	var f Flapping
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	wrote := func(a Action, after time.Duration) bool {
		now = now.Add(after)
		return f.RecordWrite(a, now)
	}
	throttled := func(a Action) time.Duration {
		_, until := f.Throttle(Plan{Stages: [][]Action{{a}}}, now)
		if until.IsZero() {
			return 0
		}
		return until.Sub(now)
	}

	for range flappingWrites - 1 {
		if wrote(same, time.Second) || throttled(same) != 0 {
			t.Fatal("left alone before it was written too often")
		}
	}
	if !wrote(same, time.Second) || throttled(same) != minFlappingBackoff {
		t.Fatalf("rests %v", throttled(same))
	}
	if throttled(update(2, "data.a differs")) != 0 {
		t.Error("another desired child has to wait")
	}
	if throttled(Action{Verb: Delete, Before: child, Reason: noLongerDesired}) != 0 || throttled(Action{Verb: Create, Ref: child.Ref()}) != 0 {
		t.Error("what brings nothing in line has to wait")
	}
	for _, want := range []time.Duration{20 * time.Second, maxFlappingBackoff, maxFlappingBackoff} {
		if !wrote(same, throttled(same)) || throttled(same) != want {
			t.Fatalf("rests %v, want %v", throttled(same), want)
		}
	}
	fits := f.Children(now)
	if len(fits) != 1 || fits[0].Reason != "data.a differs" || fits[0].Until.Sub(now) != maxFlappingBackoff {
		t.Fatalf("%+v", fits)
	}
	now = fits[0].ExpiresAt
	if len(f.Children(now)) != 0 || throttled(same) != 0 || wrote(same, 0) {
		t.Error("not forgotten when it has been quiet")
	}
}

func TestRareWritesAreNotFlapping(t *testing.T) {
	child := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","uid":"u"}}`)
	var f Flapping
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for range 100 {
		now = now.Add(20 * time.Second)
		if f.RecordWrite(Action{Verb: Update, Before: child, Desired: 1, Reason: "data.a differs"}, now) {
			t.Fatal("counts as flapping")
		}
	}
}

// A child that is recreated has another UID each time.
func TestRecreatedChildrenAreFlapping(t *testing.T) {
	var f Flapping
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	for i := range flappingWrites {
		now = now.Add(time.Second)
		for _, name := range []string{"b", "a"} {
			child := parse(t, fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":%q,"uid":"u-%s-%d"}}`, name, name, i))
			recreate := Action{Verb: Delete, DryRunVerb: Apply, Ref: child.Ref(), Before: child, Desired: 1, Reason: "data." + name + " differs"}
			if got, want := f.RecordWrite(recreate, now), i == flappingWrites-1; got != want {
				t.Errorf("write %d of %s: throttled %v, want %v", i, name, got, want)
			}
			f.SetManager(recreate, "kubectl-"+name)
		}
	}
	all := f.Children(now)
	if len(all) != 2 || all[0].Ref.Name != "a" || all[0].Reason != "data.a differs" || all[1].Manager != "kubectl-b" {
		t.Errorf("%+v", all)
	}
}

// TestFlappingIsSmall limits the memory of a child that was written once.
func TestFlappingIsSmall(t *testing.T) {
	const parents, limit = 2000, 200
	child := parse(t, `{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c","uid":"u"}}`)
	update := Action{Verb: Update, Ref: child.Ref(), Before: child, Desired: 1, Reason: "data.a differs"}
	all := make([]Flapping, parents)
	held := heaptest.Held(func() {
		for i := range all {
			all[i].RecordWrite(update, time.Unix(int64(i), 0))
		}
	})
	if held/parents > limit {
		t.Errorf("%d bytes per child, want at most %d", held/parents, limit)
	}
	runtime.KeepAlive(all)
}
