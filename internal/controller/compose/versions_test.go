package compose

import (
	"context"
	"encoding/json"
	"errors"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// What counts as a failure of a new version: three in a row, or one that no retry fixes; not those of the parent,
// of other clients, or that it had before.
func TestMovedParentObserved(t *testing.T) {
	type end struct {
		outcome record.Outcome
		err     error
	}
	ok, postponed := end{outcome: record.Synced}, end{record.Postponed, controller.ErrConflict}
	fails := func(reason string) end {
		return end{record.Failed, failure.WithReason(reason, errors.New("sync hook: broken"))}
	}
	broken, unreachable := fails(ReasonHookFailed), fails(controller.ReasonWriteFailed)
	failed := rollout.Observed{Failed: 1, Failure: "Shop a: sync hook: broken"}
	reconciled := rollout.Observed{Reconciled: 1}
	for name, c := range map[string]struct {
		failedBefore bool
		ends         []end
		want         rollout.Observed
	}{
		"reconciled":             {ends: []end{ok}, want: reconciled},
		"postponed":              {ends: []end{postponed}, want: rollout.Observed{}},
		"two flakes":             {ends: []end{broken, broken}, want: rollout.Observed{}},
		"three failures":         {ends: []end{broken, broken, broken}, want: failed},
		"flakes apart":           {ends: []end{broken, broken, ok, broken}, want: rollout.Observed{}},
		"a terminal failure":     {ends: []end{{record.Failed, hookFailure("sync", &hook.TerminalError{Err: errors.New("broken")})}}, want: failed},
		"after a success":        {ends: []end{ok, broken, broken, broken}, want: failed},
		"failed before":          {failedBefore: true, ends: []end{broken, broken, broken}, want: reconciled},
		"failed before, and now": {failedBefore: true, ends: []end{ok, broken, broken, broken}, want: failed},
		"its own selector":       {ends: []end{fails(ReasonInvalidParent), fails(ReasonInvalidParent), fails(ReasonInvalidParent)}, want: rollout.Observed{}},
		"another client":         {ends: []end{fails(ReasonFlapping), fails(ReasonFlapping), fails(ReasonFlapping)}, want: rollout.Observed{}},
		"no API server":          {ends: []end{unreachable, unreachable, unreachable}, want: rollout.Observed{}},
		"held deletions":         {ends: []end{fails(ReasonDeletionsHeld)}, want: rollout.Observed{Held: "the deletion guard holds deletions of children of Shop a"}},
		"deletions held before":  {ends: []end{fails(ReasonDeletionsHeld), ok}, want: reconciled},
	} {
		m := movedParent{failedBefore: c.failedBefore}
		for _, e := range c.ends {
			m.add(e.outcome, e.err)
		}
		if diff := cmp.Diff(c.want, m.observed("Shop a")); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// brokenHook fails, as often as it says; 0 for always.
type brokenHook struct{ times, calls int }

func (b *brokenHook) Call(context.Context, *hook.Request) (*hook.Response, error) {
	b.calls++
	if b.times == 0 || b.calls <= b.times {
		return nil, errors.New("broken")
	}
	return &hook.Response{}, nil
}

// rollingOut returns the controller of a shop whose hook is broken, and was less so in the version before.
func rollingOut(t *testing.T, failuresBefore int) *testController {
	t.Helper()
	s := newCluster(t, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":1},"spec":{}}`)
	former := hook.Hook(&brokenHook{times: failuresBefore})
	if failuresBefore == 0 {
		former = &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{} }}
	}
	return shopsOf(t, s, Program{Version: "v2", Sync: &brokenHook{}, Former: &Logic{Version: "v1", Sync: former}})
}

// failsSinceItMoved reports whether the shop counts as one that fails since it moved.
func (s *testController) failsSinceItMoved() bool {
	m := s.tools.Versions.moved[guardedParent{s.Controller, queue.Key{Namespace: "town", Name: "a"}}]
	return m.observed("a").Failed == 1
}

// A parent whose former version had failed once, for whatever reason, is not excused from failing with the new one.
// One that had failed for good is, also after more failures.
func TestParentsThatFailedBefore(t *testing.T) {
	for failuresBefore, want := range map[int]bool{0: true, 1: true, maxFlakes: true, maxFlakes + 1: false} {
		s := rollingOut(t, failuresBefore)
		for range max(failuresBefore, 1) {
			s.run(queue.Start)
		}
		s.tools.Versions.SetPosition(rollout.End)
		for range maxFlakes + 2 {
			s.run(queue.LogicChanged)
		}
		if got := s.failsSinceItMoved(); got != want {
			t.Errorf("after %d failures of the version before, it fails since it moved: %v, want %v", failuresBefore, got, want)
		}
	}
}

// A rollout that is started again at once after a rollback finds the same failures.
func TestFailuresAfterARollbackCountAgain(t *testing.T) {
	s := rollingOut(t, 0)
	s.run(queue.Start)
	for range 2 {
		s.tools.Versions.SetPosition(rollout.End)
		for range maxFlakes + 1 {
			s.run(queue.LogicChanged)
		}
		if !s.failsSinceItMoved() {
			t.Error("a parent that fails does not count")
		}
		s.tools.Versions.SetPosition(0)
	}
}

// Before the caches have synced, such as after a restart, a rollout must not take the parents for none.
func TestRolloutKnowsNothingBeforeItRuns(t *testing.T) {
	s := rollingOut(t, 0)
	if o := s.Rollout(); !o.Unknown {
		t.Errorf("%+v", o)
	}
}

func TestDelayAt(t *testing.T) {
	if delayAt(5, 0) != 0 || delayAt(5, 10) != 500*time.Millisecond {
		t.Errorf("%v, %v", delayAt(5, 0), delayAt(5, 10))
	}
}

// An edit of a parent from before it moved does not explain what the new version deletes: that is what the guard is
// for.
func TestAnEditBeforeTheMoveExplainsNoDeletion(t *testing.T) {
	s := newCluster(t, newShop)
	made := func(children ...json.RawMessage) hook.Hook {
		return &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{Children: children} }}
	}
	shops := shopsOf(t, s, Program{
		Version: "v2", Sync: made(), Former: &Logic{Version: "v1", Sync: made(sign)}, DeletionLimit: &plan.DeletionLimit{},
	})
	shops.run(queue.Start)
	remembered, _ := shops.Memories.Get(queue.Key{Namespace: "town", Name: "a"}, "u-a")
	remembered.(*memory).editedAt = time.Now()
	shops.tools.Versions.SetPosition(rollout.End)
	if ran := shops.run(queue.LogicChanged); controller.ReasonOf(ran.Err) != ReasonDeletionsHeld || s.stored("configmaps/sign", "data") == "" {
		t.Errorf("the child is deleted: %v", ran.Err)
	}
}
