package composite

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// What counts as a failure of a new version: three in a row, or one that no retry fixes; not those of the parent, or
// that it had before. Those that may be of other clients or the API server stop a rollout, unless it had them before.
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
	unselective, flapping, unrevised := fails(ReasonInvalidParent), fails(ReasonFlapping), fails(ReasonRolloutFailed)
	failed := rollout.Observed{Failed: 1, Failure: "Shop a: sync hook: broken"}
	reconciled := rollout.Observed{Reconciled: 1}
	blocked := rollout.Observed{Blocked: "Shop a: sync hook: broken"}
	brokenBefore, elsewhereBefore := failures{attempts: maxFlakes + 1}, failures{elsewhere: maxFlakes + 1}
	for name, c := range map[string]struct {
		before failures
		ends   []end
		want   rollout.Observed
	}{
		"reconciled":             {ends: []end{ok}, want: reconciled},
		"postponed":              {ends: []end{postponed}, want: rollout.Observed{}},
		"two flakes":             {ends: []end{broken, broken}, want: rollout.Observed{}},
		"three failures":         {ends: []end{broken, broken, broken}, want: failed},
		"flakes apart":           {ends: []end{broken, broken, ok, broken}, want: rollout.Observed{}},
		"a terminal failure":     {ends: []end{{record.Failed, hookFailure("sync", &hook.TerminalError{Err: errors.New("broken")})}}, want: failed},
		"after a success":        {ends: []end{ok, broken, broken, broken}, want: failed},
		"failed before":          {before: brokenBefore, ends: []end{broken, broken, broken}, want: reconciled},
		"failed before, and now": {before: brokenBefore, ends: []end{ok, broken, broken, broken}, want: failed},
		"failed elsewhere":       {before: elsewhereBefore, ends: []end{broken, broken, broken}, want: failed},

		"its own selector":             {ends: []end{unselective}, want: reconciled},
		"its own selector, and flakes": {ends: []end{broken, unselective, broken, unselective}, want: rollout.Observed{}},
		"fails, then its own selector": {ends: []end{broken, broken, broken, unselective}, want: failed},
		"its own selector is mended":   {ends: []end{unselective, broken}, want: rollout.Observed{}},

		"another client":                  {ends: []end{flapping, flapping, flapping}, want: blocked},
		"another client, for a moment":    {ends: []end{flapping, flapping}, want: rollout.Observed{}},
		"another client, no longer":       {ends: []end{flapping, flapping, flapping, ok}, want: reconciled},
		"another client, before too":      {before: elsewhereBefore, ends: []end{flapping, flapping, flapping}, want: reconciled},
		"another client, again":           {before: elsewhereBefore, ends: []end{ok, flapping, flapping, flapping}, want: blocked},
		"another client, and broken":      {ends: []end{flapping, flapping, flapping, broken, broken, broken}, want: failed},
		"another client of a broken hook": {before: brokenBefore, ends: []end{flapping, flapping, flapping}, want: blocked},

		"revisions":                {ends: []end{unrevised, unrevised, unrevised}, want: blocked},
		"no API server":            {ends: []end{unreachable, unreachable, unreachable}, want: blocked},
		"no API server for a time": {ends: []end{ok, unreachable, unreachable}, want: reconciled},

		"held deletions":        {ends: []end{fails(ReasonDeletionsHeld)}, want: rollout.Observed{Held: "the deletion guard holds deletions of children of Shop a"}},
		"deletions held before": {ends: []end{fails(ReasonDeletionsHeld), ok}, want: reconciled},
	} {
		m := movedParent{before: c.before}
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
	m := s.tools.Versions.moved[controller.ObjectID{Base: s.Base, Key: queue.Key{Namespace: "town", Name: "a"}}]
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

// A child that the API server fails to store stops the rollout if only the new version has it.
func TestFailuresOfWritesBeforeTheMove(t *testing.T) {
	made := func(children ...json.RawMessage) hook.Hook {
		return &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{Children: children} }}
	}
	for name, c := range map[string]struct {
		former     hook.Hook
		reconciled int
		blocked    string
	}{
		"in both versions":       {made(sign), 1, ""},
		"in the new version":     {made(), 0, "Shop a: "},
		"another one in the old": {&brokenHook{}, 0, "Shop a: "},
	} {
		s := newCluster(t, newShop)
		s.refuse = func(_, path string) int {
			if strings.HasPrefix(path, "configmaps") {
				return http.StatusInternalServerError
			}
			return 0
		}
		shops := shopsOf(t, s, Program{Version: "v2", Sync: made(sign), Former: &Logic{Version: "v1", Sync: c.former}})
		for range maxFlakes + 1 {
			shops.run(queue.Start)
		}
		shops.tools.Versions.SetPosition(rollout.End)
		for range maxFlakes + 1 {
			shops.run(queue.LogicChanged)
		}
		m := shops.tools.Versions.moved[controller.ObjectID{Base: shops.Base, Key: queue.Key{Namespace: "town", Name: "a"}}]
		got := m.observed("Shop a")
		if got.Reconciled != c.reconciled || !strings.HasPrefix(got.Blocked, c.blocked) || (got.Blocked == "") != (c.blocked == "") {
			t.Errorf("%s: %+v", name, got)
		}
	}
}

// A run that fails before it calls the hook must not keep the shadow waiting for its comparison.
func TestShadowDoesNotWaitForUnreadableRevisions(t *testing.T) {
	r := rollingRun(t, nil)
	r.program.Version, r.program.Former = "v2", &Logic{Version: "v1", Sync: hook.Func(func(context.Context, *hook.Request) (*hook.Response, error) {
		t.Error("the hook is called")
		return &hook.Response{}, nil
	})}
	r.logic = *r.program.Former
	r.tools.Versions = NewVersions(nil)
	r.tools.Versions.SetShadow(true, 1)
	r.storedRevisions = []*object.Object{parsed(t, `{"apiVersion":"apps/v1","kind":"ControllerRevision","metadata":{"name":"x","namespace":"town",
		"annotations":{"setpoint.dev/controller":"shops"}},"revision":"one"}`)}
	err := r.callHook(t.Context())
	if err == nil {
		t.Fatal("the revision can be read")
	}
	r.noteNotCompared(record.Failed, err)
	if p := r.tools.Versions.shadow.get(r.shadowed(r.Stored)); !p.settled {
		t.Errorf("%+v", p)
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
	remembered.(*memory).edits.At = time.Now()
	shops.tools.Versions.SetPosition(rollout.End)
	if ran := shops.run(queue.LogicChanged); controller.ReasonOf(ran.Err) != ReasonDeletionsHeld || s.stored("configmaps/sign", "data") == "" {
		t.Errorf("the child is deleted: %v", ran.Err)
	}
}

// A hook that has no version any more has none in the status; one that has it for some parents only keeps it.
func TestSettledLogicVersion(t *testing.T) {
	for name, c := range map[string]struct {
		restored string
		// responses are the versions in responses about two parents, one after the other.
		responses [][2]string
		want      LogicVersionState
	}{
		"no response":          {"", nil, LogicVersionState{}},
		"none since a restart": {"one", nil, LogicVersionState{Known: true, Current: "one"}},
		"none ever":            {"", [][2]string{{"", ""}}, LogicVersionState{Known: true}},
		"the first":            {"", [][2]string{{"one", "one"}}, LogicVersionState{Known: true, Current: "one"}},
		"another one":          {"one", [][2]string{{"two", "two"}}, LogicVersionState{Known: true, Current: "two", Before: "one"}},
		"no longer":            {"", [][2]string{{"one", "one"}, {"", ""}}, LogicVersionState{Known: true}},
		"not since a restart":  {"one", [][2]string{{"", ""}}, LogicVersionState{Known: true}},
		"not for all":          {"", [][2]string{{"one", "one"}, {"one", ""}}, LogicVersionState{Known: true, Current: "one"}},
		"again":                {"", [][2]string{{"one", "one"}, {"", ""}, {"two", "two"}}, LogicVersionState{Known: true, Current: "two"}},
		"of another parent":    {"", [][2]string{{"one", ""}, {"", "one"}}, LogicVersionState{Known: true, Current: "one"}},
	} {
		v, now := NewLogicVersions("v1", c.restored), time.Now()
		state := v.Settle("v1", now)
		for _, versions := range c.responses {
			for i, version := range versions {
				v.note(shadowed{controller.ObjectID{Key: queue.Key{Name: []string{"a", "b"}[i]}}, "u"}, "v1", version, now)
			}
			now = now.Add(rollout.SettleTime)
			state = v.Settle("v1", now)
		}
		if diff := cmp.Diff(c.want, state); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
