package guard

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// guardTest is a guard with parents, children and a clock.
type guardTest struct {
	*Guard
	t   *testing.T
	now time.Time
}

// newGuardTest returns a guard as after a start. children is how many the controller has.
func newGuardTest(t *testing.T, children int, heldBefore bool) *guardTest {
	l := &guardTest{t: t, now: time.Unix(1e9, 0)}
	l.Guard = New(plan.DefaultDeletionLimit(), func() time.Time { return l.now })
	if heldBefore {
		l.RestoreHeld()
	}
	l.count(func(bool) int { return children })
	return l
}

// count replaces what counts the children.
func (l *guardTest) count(children func(moved bool) int) {
	l.members = []member{{&controller.Base{Queue: queue.New(queue.Options{})}, children}}
}

func (l *guardTest) parent(parent int) controller.ObjectID {
	return controller.ObjectID{Key: queue.Key{Name: fmt.Sprint(parent)}}
}

// respond runs a parent whose response leaves out this many children.
func (l *guardTest) respond(parent, children int, confirms string) Decision {
	l.t.Helper()
	return l.Decide(l.parent(parent), false, l.deletions(parent, children), confirms)
}

func (l *guardTest) deletions(parent, children int) []plan.Action {
	l.t.Helper()
	var all []plan.Action
	for i := range children {
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d-%d","uid":"u%[1]d-%[2]d"}}`, parent, i)
		o := must.Get(object.Parse([]byte(text))).In(l.t)
		all = append(all, plan.Action{Verb: plan.Delete, Ref: o.Ref(), Before: o})
	}
	return all
}

// expect checks the decision about a parent: "made", "waits" or "held".
func (l *guardTest) expect(want string, parent, children int) {
	l.t.Helper()
	got, r := "made", l.respond(parent, children, "")
	switch {
	case r.Held:
		got = "held"
	case r.Wait > 0:
		got = "waits"
	}
	if got != want {
		l.t.Errorf("the deletions of parent %d: %s, want %s", parent, got, want)
	}
}

// expectEach checks the decisions about the parents before end.
func (l *guardTest) expectEach(want string, parent, end, children int) {
	l.t.Helper()
	for ; parent < end; parent++ {
		l.expect(want, parent, children)
	}
}

func (l *guardTest) respondEach(parent, end, children int) {
	l.t.Helper()
	for ; parent < end; parent++ {
		l.respond(parent, children, "")
	}
}

func (l *guardTest) advance(d time.Duration) { l.now = l.now.Add(d) }

// Fault G11: if the hook leaves out the children of 12 parents, none is deleted, not even the
// first, and not after a restart.
func TestMassDeletionIsHeldFromTheStart(t *testing.T) {
	l := newGuardTest(t, 12, false)
	l.expectEach("waits", 0, 5, 1)
	l.expectEach("held", 5, 12, 1)
	l.advance(delay)
	l.expectEach("held", 0, 12, 1)
	if held := l.Held(nil); held.Count != 12 || held.Parents != 12 || len(held.Value) != 16 {
		t.Errorf("held is %+v", held)
	}
	// The hook is fixed: the remaining deletions are below the limit.
	l.expectEach("made", 0, 7, 0)
	if held := l.Held(nil); held.Count != 0 {
		t.Errorf("held although it is over: %+v", held)
	}
	l.expect("made", 11, 1)
}

// Fault G11: deletions have to exceed both the share and the count, within the window.
func TestDeletionsBelowTheLimitAreMade(t *testing.T) {
	children := 100
	l := newGuardTest(t, 0, false)
	l.count(func(bool) int { return children })
	for parent := range 25 {
		l.expect("waits", parent, 1)
		l.advance(delay)
		l.expect("made", parent, 1)
		children--
	}
	l.expect("held", 25, 1)
	l.expect("made", 25, 0)
	l.advance(window)
	l.expect("waits", 25, 1)
	l.advance(delay)
	l.expect("made", 25, 1)
	small := newGuardTest(t, 5, false)
	small.expect("made", 1, 5)
}

// Fault G11: new children do not release held deletions, and neither does a restart.
func TestHeldDeletionsStayHeldWhenChildrenAreCreated(t *testing.T) {
	children := 9
	l := newGuardTest(t, 0, false)
	l.count(func(bool) int { return children })
	l.expect("waits", 1, 2)
	l.expect("waits", 2, 2)
	l.expect("held", 3, 2)
	children = 100
	l.advance(2 * window)
	l.expect("held", 1, 2)

	restarted := newGuardTest(t, 100, true)
	if !restarted.HeldUnknown() || l.HeldUnknown() {
		t.Error("what is held is not known right after a restart, and known later")
	}
	restarted.expect("waits", 1, 2)
	restarted.expect("waits", 2, 2)
	restarted.expect("held", 3, 2)
	restarted.advance(restartGrace)
	if restarted.HeldUnknown() {
		t.Error("what is held is not known for long")
	}
	fresh := newGuardTest(t, 100, false)
	fresh.expect("waits", 1, 2)
	fresh.expect("waits", 2, 2)
	fresh.expect("waits", 3, 2)
}

// Fault G11: a value confirms the deletions that are held when it is set, once, and again after a
// restart.
func TestConfirmedDeletionsAreMade(t *testing.T) {
	l := newGuardTest(t, 12, false)
	l.respondEach(0, 12, 1)
	value := l.Held(nil).Value
	l.Allow("another")
	l.expect("held", 3, 1)
	l.Allow(value)
	l.expectEach("made", 0, 12, 1)
	if l.HeldUnknown() || l.Held(nil) != (controller.HeldDeletions{}) {
		t.Error("a confirmed hold is not over")
	}
	// An old value confirms nothing else.
	l.expectEach("waits", 20, 25, 1)
	l = newGuardTest(t, 12, false)
	l.Allow(value)
	l.respondEach(12, 24, 1)
	l.expect("held", 12, 1)

	restarted := newGuardTest(t, 12, true)
	restarted.Allow(value)
	restarted.respondEach(0, 12, 1)
	restarted.expectEach("made", 0, 12, 1)
}

// Fault G11: the annotation of a parent confirms the deletions of that parent alone.
func TestParentConfirmsItsDeletions(t *testing.T) {
	l := newGuardTest(t, 12, false)
	l.respondEach(0, 12, 1)
	_, value := l.HeldChildren(l.parent(4))
	if r := l.respond(4, 1, value); r.Held || r.Wait > 0 {
		t.Errorf("not made although confirmed: %+v", r)
	}
	if r := l.respond(5, 1, value); !r.Held {
		t.Errorf("another parent's deletion was made: %+v", r)
	}
	if held := l.Held(nil); held.Count != 11 {
		t.Errorf("held is %+v, want 11 deletions", held)
	}
}

// Pending deletions of a deleted parent do not count.
func TestDropReleasesHeldDeletions(t *testing.T) {
	l := newGuardTest(t, 12, false)
	l.respondEach(0, 12, 1)
	for parent := range 7 {
		l.Drop(l.parent(parent))
	}
	if held := l.Held(nil); held != (controller.HeldDeletions{}) {
		t.Errorf("held is %+v", held)
	}
}

// Fault G11: an edit of a parent does not release deletions held before it.
func TestEditsDoNotReleaseHeldDeletions(t *testing.T) {
	l := newGuardTest(t, 12, false)
	l.respondEach(0, 12, 2)
	edited := l.deletions(3, 4)
	if still := l.FilterHeld(l.parent(3), edited); len(still) != 2 {
		t.Errorf("of 4 deletions, 2 of which were held before the edit, %d are held", len(still))
	}
	if rest := (plan.Plan{Stages: [][]plan.Action{edited}}).Without(edited[:2]); len(rest.Actions()) != 2 {
		t.Errorf("%d deletions go on, want 2", len(rest.Actions()))
	}
	if still := l.FilterHeld(l.parent(12), l.deletions(12, 1)); len(still) != 0 {
		t.Errorf("a deletion that was not wanted before an edit is held: %v", still)
	}
	l.respond(3, 2, confirmationValue(l.pending[l.parent(3)].sum))
	if still := l.FilterHeld(l.parent(3), edited); len(still) != 0 {
		t.Errorf("what a person has confirmed is held: %v", still)
	}
}

// Fault G11: an edit of the spec explains deletions for a while, and until a run succeeds. A new
// parent, labels and a status do not.
func TestEditsExplainDeletions(t *testing.T) {
	now := time.Unix(1e9, 0)
	for _, c := range []struct {
		name          string
		storesStatus  bool
		before, after string
		want          bool
	}{
		{"first sight", true, "", `"generation":1}`, false},
		{"first sight of what was edited before", true, "", `"generation":3},"status":{"observedGeneration":3}`, false},
		{"edited while nothing ran", true, "", `"generation":3},"status":{"observedGeneration":2}`, true},
		{"another's status", false, "", `"generation":3},"status":{"observedGeneration":2}`, false},
		{"an edit", true, `"generation":1}`, `"generation":2}`, true},
		{"a label", true, `"generation":1}`, `"generation":1,"labels":{"a":"b"}}`, false},
		{"data", false, `"uid":"u"},"data":{"a":"1"}`, `"uid":"u"},"data":{"a":"2"}`, true},
		{"a status without generations", false, `"uid":"u"},"data":{"a":"1"}`, `"uid":"u"},"status":{"a":"2"},"data":{"a":"1"}`, false},
	} {
		parent := func(rest string) *object.Object {
			return must.Get(object.Parse([]byte(`{"apiVersion":"v1","kind":"Shop","metadata":{"name":"a",` + rest + `}`))).In(t)
		}
		var edits Edits
		if c.before != "" && edits.Explain(parent(c.before), c.storesStatus, now) {
			t.Errorf("%s: a first sight is taken for an edit", c.name)
		}
		if got := edits.Explain(parent(c.after), c.storesStatus, now); got != c.want {
			t.Errorf("%s: explained is %v, want %v", c.name, got, c.want)
		}
		edits.Pending = false
		now = now.Add(window)
		if edits.Explain(parent(c.after), c.storesStatus, now) {
			t.Errorf("%s: explained after the window", c.name)
		}
	}
}

// A version that deletes two of three children is noticed at the first step of its rollout: 40 deletions are few
// of 600 children, but many of the 60 of the parents that have moved.
func TestDeletionsOfMovedParentsAreComparedWithTheirChildren(t *testing.T) {
	l := newGuardTest(t, 0, false)
	l.count(func(moved bool) int {
		if moved {
			return 60
		}
		return 600
	})
	decide := func(parent int) Decision { return l.Decide(l.parent(parent), true, l.deletions(parent, 2), "") }
	for parent := range 20 {
		decide(parent)
	}
	l.advance(delay)
	for parent := range 20 {
		if !decide(parent).Held {
			t.Errorf("the deletions of parent %d are not held", parent)
		}
	}
	// Taken back, the parents desire their children again, and others may delete as before.
	l.expectEach("made", 0, 20, 0)
	l.expectEach("waits", 20, 60, 2)
	l.advance(delay)
	l.expectEach("made", 20, 60, 2)
	l.advance(window)
	l.expect("waits", 1, 1)
	if l.all.Recent != 0 || l.all.Pending != 1 || l.moved.Recent != 0 || l.moved.Pending != 0 {
		t.Errorf("after the window: all %+v, moved %+v", l.all, l.moved)
	}
}
