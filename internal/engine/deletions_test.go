package engine

import (
	"fmt"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// ledger is a guard of a controller with parents that have children, and a clock.
type ledger struct {
	*Deletions
	t   *testing.T
	now time.Time
}

// newLedger makes one as after a start. children is how many the controller has.
func newLedger(t *testing.T, children int, heldBefore bool) *ledger {
	l := &ledger{t: t, now: time.Unix(1e9, 0)}
	l.Deletions = NewDeletions(plan.DefaultGuard(), func() time.Time { return l.now })
	if heldBefore {
		l.Recall()
	}
	l.census = func() int { return children }
	return l
}

func (l *ledger) of(parent int) claimant { return claimant{key: queue.Key{Name: fmt.Sprint(parent)}} }

// asks is a run of a parent whose response leaves out so many children.
func (l *ledger) asks(parent, children int, confirms string) ruling {
	l.t.Helper()
	return l.rule(l.of(parent), l.deletes(parent, children), confirms)
}

// deletes are the deletions of so many children of a parent.
func (l *ledger) deletes(parent, children int) []plan.Action {
	l.t.Helper()
	var all []plan.Action
	for i := range children {
		text := fmt.Sprintf(`{"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c%d-%d","uid":"u%[1]d-%[2]d"}}`, parent, i)
		o, err := object.Parse([]byte(text))
		if err != nil {
			l.t.Fatal(err)
		}
		all = append(all, plan.Action{Verb: plan.Delete, Ref: o.Ref(), Before: o})
	}
	return all
}

// wants is that a run of a parent ends so: "made", "waits" or "held".
func (l *ledger) wants(want string, parent, children int) {
	l.t.Helper()
	got, r := "made", l.asks(parent, children, "")
	switch {
	case r.held:
		got = "held"
	case r.wait > 0:
		got = "waits"
	}
	if got != want {
		l.t.Errorf("the deletions of parent %d: %s, want %s", parent, got, want)
	}
}

func (l *ledger) after(d time.Duration) { l.now = l.now.Add(d) }

// Fault G11: of 12 parents whose children are all left out, none loses any; not even
// the first ones, and not after a restart.
func TestMassDeletionIsHeldFromTheFirst(t *testing.T) {
	l := newLedger(t, 12, false)
	for parent := range 5 {
		l.wants("waits", parent, 1)
	}
	for parent := 5; parent < 12; parent++ {
		l.wants("held", parent, 1)
	}
	l.after(deletionDelay)
	for parent := range 12 {
		l.wants("held", parent, 1)
	}
	if held := l.heldFor(nil); held.Deletions != 12 || held.Parents != 12 || len(held.Value) != 16 {
		t.Errorf("held is %+v", held)
	}
	// The hook is corrected: the last ones are few enough to be made.
	for parent := range 7 {
		l.wants("made", parent, 0)
	}
	if held := l.heldFor(nil); held.Deletions != 0 {
		t.Errorf("held although it is over: %+v", held)
	}
	l.wants("made", 11, 1)
}

// Fault G11: a share and a count have to be exceeded, within the window.
func TestDeletionsBelowTheLimitAreMade(t *testing.T) {
	children := 100
	l := newLedger(t, 0, false)
	l.census = func() int { return children }
	for parent := range 25 {
		l.wants("waits", parent, 1)
		l.after(deletionDelay)
		l.wants("made", parent, 1)
		children--
	}
	l.wants("held", 25, 1)
	l.wants("made", 25, 0)
	l.after(deletionWindow)
	l.wants("waits", 25, 1)
	l.after(deletionDelay)
	l.wants("made", 25, 1)
	small := newLedger(t, 5, false)
	small.wants("made", 1, 5)
}

// Fault G11: what is created meanwhile does not end a hold, nor does a restart then.
func TestHoldOutlivesWhatIsCreated(t *testing.T) {
	children := 9
	l := newLedger(t, 0, false)
	l.census = func() int { return children }
	l.wants("waits", 1, 2)
	l.wants("waits", 2, 2)
	l.wants("held", 3, 2)
	children = 100
	l.after(2 * deletionWindow)
	l.wants("held", 1, 2)

	restarted := newLedger(t, 100, true)
	if !restarted.unknown() || l.unknown() {
		t.Error("what is held is not known right after a restart, and known later")
	}
	restarted.wants("waits", 1, 2)
	restarted.wants("waits", 2, 2)
	restarted.wants("held", 3, 2)
	restarted.after(recollection)
	if restarted.unknown() {
		t.Error("what is held is not known for long")
	}
	fresh := newLedger(t, 100, false)
	fresh.wants("waits", 1, 2)
	fresh.wants("waits", 2, 2)
	fresh.wants("waits", 3, 2)
}

// Fault G11: a value confirms what is held when it is given, once, and after a restart
// in which the same is held again.
func TestConfirmedDeletionsAreMade(t *testing.T) {
	l := newLedger(t, 12, false)
	for parent := range 12 {
		l.asks(parent, 1, "")
	}
	value := l.heldFor(nil).Value
	l.Allow("another")
	l.wants("held", 3, 1)
	l.Allow(value)
	for parent := range 12 {
		l.wants("made", parent, 1)
	}
	if l.unknown() || l.heldFor(nil) != (Held{}) {
		t.Error("a confirmed hold is not over")
	}
	// An old value lets nothing else go on.
	for parent := 20; parent < 25; parent++ {
		l.wants("waits", parent, 1)
	}
	l = newLedger(t, 12, false)
	l.Allow(value)
	for parent := 12; parent < 24; parent++ {
		l.asks(parent, 1, "")
	}
	l.wants("held", 12, 1)

	restarted := newLedger(t, 12, true)
	restarted.Allow(value)
	for parent := range 12 {
		restarted.asks(parent, 1, "")
	}
	for parent := range 12 {
		restarted.wants("made", parent, 1)
	}
}

// Fault G11: one parent's user confirms for that parent alone.
func TestParentConfirmsItsOwn(t *testing.T) {
	l := newLedger(t, 12, false)
	for parent := range 12 {
		l.asks(parent, 1, "")
	}
	_, value := l.heldOf(l.of(4))
	if r := l.asks(4, 1, value); r.held || r.wait > 0 {
		t.Errorf("not made although confirmed: %+v", r)
	}
	if r := l.asks(5, 1, value); !r.held {
		t.Errorf("another parent's deletion was made: %+v", r)
	}
	if held := l.heldFor(nil); held.Deletions != 11 {
		t.Errorf("held is %+v, want 11 deletions", held)
	}
}

// What a parent that is gone wanted holds nothing.
func TestDropEndsAHold(t *testing.T) {
	l := newLedger(t, 12, false)
	for parent := range 12 {
		l.asks(parent, 1, "")
	}
	for parent := range 7 {
		l.drop(l.of(parent))
	}
	if held := l.heldFor(nil); held != (Held{}) {
		t.Errorf("held is %+v", held)
	}
}

// Fault G11: an edit of a parent releases none of the deletions that were held before it.
func TestEditsDoNotReleaseWhatIsHeld(t *testing.T) {
	l := newLedger(t, 12, false)
	for parent := range 12 {
		l.asks(parent, 2, "")
	}
	edited := l.deletes(3, 4)
	if still := l.heldAmong(l.of(3), edited); len(still) != 2 {
		t.Errorf("of 4 deletions, 2 of which were held before the edit, %d are held", len(still))
	}
	if rest := (plan.Plan{Stages: [][]plan.Action{edited}}).Without(edited[:2]); rest.Len() != 2 {
		t.Errorf("%d deletions go on, want 2", rest.Len())
	}
	if still := l.heldAmong(l.of(12), l.deletes(12, 1)); len(still) != 0 {
		t.Errorf("a deletion that was not wanted before an edit is held: %v", still)
	}
	l.asks(3, 2, valueOf(l.wanted[l.of(3)].sum))
	if still := l.heldAmong(l.of(3), edited); len(still) != 0 {
		t.Errorf("what a person has confirmed is held: %v", still)
	}
}

// Fault G11: an edit of the spec explains deletions for a while, and until a run has
// succeeded; a new parent, labels and a status do not.
func TestEditsExplainDeletions(t *testing.T) {
	custom := object.Resource{Group: "example.org", Version: "v1", Kind: "Shop", Plural: "shops", Custom: true, Status: true}
	builtin := object.Resource{Version: "v1", Kind: "ConfigMap", Plural: "configmaps"}
	now := time.Unix(1e9, 0)
	for _, c := range []struct {
		name          string
		resource      object.Resource
		before, after string
		want          bool
	}{
		{"first sight", custom, "", `"generation":1}`, false},
		{"first sight of what was edited before", custom, "", `"generation":3},"status":{"observedGeneration":3}`, false},
		{"edited while nothing ran", custom, "", `"generation":3},"status":{"observedGeneration":2}`, true},
		{"another's status", builtin, "", `"generation":3},"status":{"observedGeneration":2}`, false},
		{"an edit", custom, `"generation":1}`, `"generation":2}`, true},
		{"a label", custom, `"generation":1}`, `"generation":1,"labels":{"a":"b"}}`, false},
		{"data", builtin, `"uid":"u"},"data":{"a":"1"}`, `"uid":"u"},"data":{"a":"2"}`, true},
		{"a status without generations", builtin, `"uid":"u"},"data":{"a":"1"}`, `"uid":"u"},"status":{"a":"2"},"data":{"a":"1"}`, false},
	} {
		parent := func(rest string) *object.Object {
			o, err := object.Parse([]byte(`{"apiVersion":"v1","kind":"Shop","metadata":{"name":"a",` + rest + `}`))
			if err != nil {
				t.Fatal(err)
			}
			return o
		}
		controller := &Controller{program: Program{Parent: c.resource}, tools: Tools{Now: func() time.Time { return now }}}
		r := &run{Controller: controller, memory: &memory{}}
		if c.before != "" {
			if r.stored = parent(c.before); r.noteEdit() {
				t.Errorf("%s: a first sight is taken for an edit", c.name)
			}
		}
		r.stored = parent(c.after)
		if got := r.noteEdit(); got != c.want {
			t.Errorf("%s: explained is %v, want %v", c.name, got, c.want)
		}
		r.memory.editPending = false
		now = now.Add(deletionWindow)
		if r.noteEdit() {
			t.Errorf("%s: explained after the window", c.name)
		}
	}
}
