package trace

import (
	"errors"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// script does what a run does to its account.
func script(a *Account) Run {
	a.Was(2)
	a.Asked(a.Now(), Ask{What: "sync"})
	a.Planned(plan.Plan{}, 1)
	a.Carried(a.Now(), []apply.Result{{Action: plan.Action{Verb: plan.Create}}, {Action: plan.Action{Verb: plan.Delete}}})
	a.Wrote(a.Now(), Write{Part: "status"})
	a.Told(hook.Event{Reason: "Done"})
	a.Failed(errors.New("no money"))
	return a.Close(Failed)
}

func TestAccount(t *testing.T) {
	run := script(Open(Run{Program: "a"}, time.Now))
	if len(run.Steps) != 6 || run.Steps[3].Write.Verb != plan.Delete || run.Steps[4].Write.Verb != plan.Update || run.Attempt != 2 || run.Err == nil || run.Outcome != Failed {
		t.Errorf("got %+v", run)
	}
}

// Where nobody keeps accounts, one costs two looks at the clock and its own memory.
func TestBrief(t *testing.T) {
	now, looks := time.Unix(1, 0), 0
	clock := func() time.Time { looks++; now = now.Add(time.Second); return now }
	run := script(Brief(Run{Program: "a", Waited: time.Minute}, clock))
	if len(run.Steps) != 0 || run.Program != "a" || run.Waited != time.Minute || run.Took != time.Second || run.Outcome != Failed || looks != 2 {
		t.Errorf("got %+v after %d looks at the clock", run, looks)
	}
	failed := errors.New("no money")
	account, ask, event := Brief(Run{}, time.Now), Ask{What: "sync"}, hook.Event{Reason: "Done"}
	if n := testing.AllocsPerRun(100, func() {
		account.Asked(account.Now(), ask)
		account.Wrote(account.Now(), Write{Part: "status"})
		account.Told(event)
		account.Failed(failed)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// Where writes were refused is noted in brief too, each place once, and not what the
// server accepted.
func TestRefused(t *testing.T) {
	pods, no := object.Resource{Version: "v1", Kind: "Pod"}, errors.New("no")
	refused := plan.Action{Resource: pods, Ref: object.Ref{Kind: "Pod", Namespace: "a", Name: "p"}}
	for name, begin := range map[string]func(Run, func() time.Time) *Account{"whole": Open, "brief": Brief} {
		account := begin(Run{}, time.Now)
		account.Carried(time.Time{}, []apply.Result{{Action: refused, Err: no}, {Action: plan.Action{Resource: object.Resource{Kind: "Node"}}}})
		account.Wrote(time.Time{}, Write{Resource: pods, Ref: refused.Ref, Err: no})
		account.Wrote(time.Time{}, Write{Resource: pods, Ref: object.Ref{Namespace: "b"}, Err: no})
		if got := account.Refused(); len(got) != 2 || got[0] != (Place{pods, "a"}) || got[1] != (Place{pods, "b"}) {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// A rehearsal has no account.
func TestNoAccount(t *testing.T) {
	var a *Account
	a.Asked(a.Now(), Ask{})
	a.Failed(errors.New("no"))
	a.Wrote(a.Now(), Write{Err: errors.New("no")})
	if a.Whole() || a.Steps() != 0 || a.Refused() != nil {
		t.Error("nothing is something")
	}
}

func TestQuiet(t *testing.T) {
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
		if got := c.run.Quiet(); got != c.want {
			t.Errorf("%+v: %v", c.run, got)
		}
	}
}

func BenchmarkAccount(b *testing.B) {
	for name, begin := range map[string]func(Run, func() time.Time) *Account{"whole": Open, "brief": Brief} {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				script(begin(Run{Program: "a"}, time.Now))
			}
		})
	}
}
