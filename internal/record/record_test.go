package record

import (
	"errors"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// recordSteps records the steps of a typical run.
func recordSteps(a *Record) Run {
	a.Called(a.Now(), Call{Name: "sync"})
	a.Planned(plan.Plan{}, 1)
	a.Applied(a.Now(), []apply.Result{{Action: plan.Action{Verb: plan.Create}}, {Action: plan.Action{Verb: plan.Delete}}})
	a.Wrote(a.Now(), object.Resource{}, Write{Part: "status"})
	a.EventSent(hook.Event{Reason: "Done"})
	a.Failed(errors.New("no money"))
	return a.Finish(Failed)
}

func TestRecord(t *testing.T) {
	run := recordSteps(New(Run{Controller: "a", Attempt: 2}, time.Now))
	if len(run.Steps) != 6 || run.Steps[3].Write.Verb != string(plan.Delete) || run.Steps[4].Write.Verb != string(plan.Update) || run.Attempt != 2 || run.Err == nil || run.Outcome != Failed {
		t.Errorf("got %+v", run)
	}
}

// A summary takes two looks at the clock and one allocation.
func TestSummary(t *testing.T) {
	now, clockReads := time.Unix(1, 0), 0
	clock := func() time.Time { clockReads++; now = now.Add(time.Second); return now }
	run := recordSteps(NewSummary(Run{Controller: "a", QueuedFor: time.Minute}, clock))
	if len(run.Steps) != 0 || run.Controller != "a" || run.QueuedFor != time.Minute || run.Took != time.Second || run.Outcome != Failed || clockReads != 2 {
		t.Errorf("got %+v after %d looks at the clock", run, clockReads)
	}
	failed := errors.New("no money")
	record, call, event := NewSummary(Run{}, time.Now), Call{Name: "sync"}, hook.Event{Reason: "Done"}
	if n := testing.AllocsPerRun(100, func() {
		record.Called(record.Now(), call)
		record.Wrote(record.Now(), object.Resource{}, Write{Part: "status"})
		record.EventSent(event)
		record.Failed(failed)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// A summary too records distinct locations of refused writes, and none of accepted ones.
func TestRefused(t *testing.T) {
	pods, no := object.Resource{Version: "v1", Kind: "Pod"}, errors.New("no")
	refused := plan.Action{Resource: pods, Ref: pods.Ref("a", "p")}
	for name, begin := range map[string]func(Run, func() time.Time) *Record{"whole": New, "brief": NewSummary} {
		record := begin(Run{}, time.Now)
		record.Applied(time.Time{}, []apply.Result{{Action: refused, Err: no}, {Action: plan.Action{Resource: object.Resource{Kind: "Node"}}}})
		record.Wrote(time.Time{}, pods, Write{Object: refused.Ref, Err: no})
		record.Wrote(time.Time{}, pods, Write{Object: object.Ref{Namespace: "b"}, Err: no})
		if got := record.Refused(); len(got) != 2 || got[0] != (Location{object.KindOf(pods), "a"}) || got[1] != (Location{object.KindOf(pods), "b"}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A dry run has a nil Record.
func TestNilRecord(t *testing.T) {
	var a *Record
	a.Called(a.Now(), Call{})
	a.Failed(errors.New("no"))
	a.Wrote(a.Now(), object.Resource{}, Write{Err: errors.New("no")})
	if a.Detailed() || a.Steps() != 0 || a.Refused() != nil {
		t.Error("nothing is something")
	}
}

func TestIsNoop(t *testing.T) {
	for _, c := range []struct {
		run  Run
		want bool
	}{
		{Run{Outcome: Skipped}, true},
		{Run{Outcome: Postponed}, true},
		{Run{Outcome: Postponed, Err: errors.New("it moved")}, false},
		{Run{Outcome: Synced}, false},
		{Run{Outcome: Failed}, false},
		{Run{Outcome: Skipped, Steps: make([]Step, 1)}, false},
	} {
		if got := c.run.IsNoop(); got != c.want {
			t.Errorf("%+v: %v", c.run, got)
		}
	}
}

func BenchmarkRecord(b *testing.B) {
	for name, begin := range map[string]func(Run, func() time.Time) *Record{"whole": New, "brief": NewSummary} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				recordSteps(begin(Run{Controller: "a"}, time.Now))
			}
		})
	}
}

// The server keeps the version of an object that an update deletes, since it removes the last finalizer.
func TestRemovalOfTheLastFinalizerIsAChange(t *testing.T) {
	parse := func(finalizers string) *object.Object {
		return must.Get(object.Parse([]byte(`{"kind":"Shop","metadata":{"name":"a","resourceVersion":"7","deletionTimestamp":"2030-01-02T03:04:05Z","finalizers":` + finalizers + `}}`))).In(t)
	}
	for name, test := range map[string]struct {
		before, after string
		unchanged     bool
	}{
		"the last one": {`["x/y"]`, `[]`, false}, "none": {`["x/y"]`, `["x/y"]`, true}, "none left before": {`[]`, `[]`, true},
	} {
		a := New(Run{}, time.Now)
		a.Wrote(a.Now(), object.Resource{}, Write{Part: "metadata", Before: parse(test.before), After: parse(test.after)})
		if run := a.Finish(Synced); run.Steps[0].Write.Unchanged != test.unchanged {
			t.Errorf("%s: unchanged is %t", name, !test.unchanged)
		}
	}
}
