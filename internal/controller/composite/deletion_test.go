package composite

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

const (
	freshShop   = `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":1},"spec":{}}`
	deletedShop = `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":1,` +
		`"finalizers":["example.org/test"],"deletionTimestamp":"2026-01-01T00:00:00Z"},"spec":{}}`
)

// customizer selects gadgets, which no API server serves, or fails.
type customizer struct{ err error }

func (c customizer) Customize(context.Context, *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
	return &hook.CustomizeResponse{Related: []hook.RelatedRule{{APIVersion: "example.org/v1", Resource: "gadgets"}}}, c.err
}

// finalizer is a finalize hook that is done at once. It notes the related groups that it gets.
type finalizer struct {
	related  []hook.Group
	children []json.RawMessage
}

func (f *finalizer) Call(_ context.Context, request *hook.Request) (*hook.Response, error) {
	f.related = request.Related
	return &hook.Response{Finalized: true, Children: f.children}, nil
}

func idle() hook.Hook {
	return &statusHook{respond: func(int, *hook.Request) *hook.Response { return &hook.Response{} }}
}

// A deletion does not wait for a related kind that is gone.
func TestFinalizeGetsAnEmptyGroupForARelatedKindThatIsNotServed(t *testing.T) {
	s, hook := newCluster(t, deletedShop), &finalizer{}
	shops := shopsOf(t, s, Program{Sync: idle(), Finalize: hook, Customize: customizer{}})
	shops.run(queue.Start)
	if left := s.stored("shops/a", "metadata"); left != "" {
		t.Fatalf("the parent stays: %s; events %q", left, shops.events)
	}
	if len(hook.related) != 1 || hook.related[0].Kind != "Gadget" || len(hook.related[0].Objects) != 0 {
		t.Errorf("related %v, want an empty group of Gadgets", hook.related)
	}
	want := "RelatedMissing: the finalize hook is called without related objects: gadgets.example.org/v1: not served by the API server"
	if !slices.Contains(shops.events, want) {
		t.Errorf("events %q, want %q", shops.events, want)
	}
}

// A parent that has never had what its deletion needs gets no finalizer.
func TestNoFinalizerBeforeTheRelatedKindIsServed(t *testing.T) {
	s := newCluster(t, freshShop)
	shops := shopsOf(t, s, Program{Sync: idle(), Finalize: &finalizer{}, Customize: customizer{}})
	if ran := shops.run(queue.Start); ran.Outcome != record.Failed {
		t.Errorf("%s, want a failure", ran.Outcome)
	}
	if metadata := s.stored("shops/a", "metadata"); strings.Contains(metadata, "example.org/test") {
		t.Errorf("the parent has the finalizer: %s", metadata)
	}
}

// A customize hook that keeps failing does not stop the deletion, one failure is retried.
func TestFinalizeDoesNotWaitForACustomizeHookThatKeepsFailing(t *testing.T) {
	s, hook := newCluster(t, deletedShop), &finalizer{}
	shops := shopsOf(t, s, Program{Sync: idle(), Finalize: hook, Customize: customizer{err: errors.New("thrown")}})
	for attempt := 1; s.stored("shops/a", "metadata") != ""; attempt++ {
		if attempt > customizePatience {
			t.Fatalf("the parent stays after %d runs; events %q", customizePatience, shops.events)
		}
		shops.run(queue.Retrying)
		if gone := s.stored("shops/a", "metadata") == ""; gone != (attempt == customizePatience) {
			t.Errorf("gone after %d runs: %v", attempt, gone)
		}
	}
}

var gadgets = object.Resource{Group: "example.org", Version: "v1", Plural: "gadgets", Kind: "Gadget", Namespaced: true, Custom: true, Unserved: true}

var gadget = json.RawMessage(`{"apiVersion":"example.org/v1","kind":"Gadget","metadata":{"name":"g"}}`)

// Children of a kind that is not served any more do not exist: the sync goes on for the others and says what is
// missing, and a deletion goes on.
func TestChildrenOfAKindThatIsNotServed(t *testing.T) {
	rules := plan.Rules{{Resource: gadgets, Method: plan.InPlace}}
	s := newCluster(t, freshShop)
	sync := &statusHook{respond: func(int, *hook.Request) *hook.Response {
		return &hook.Response{Children: []json.RawMessage{gadget, sign}, Status: json.RawMessage(`{"ready":true}`)}
	}}
	shops := shopsOf(t, s, Program{Sync: sync, Children: rules, Conditions: true})
	ran := shops.run(queue.Start)
	if s.stored("configmaps/sign", "data") != `{"a":"b"}` {
		t.Error("the other child is missing")
	}
	if status := s.stored("shops/a", "status"); ran.Outcome != record.Failed || !strings.Contains(status, "gadgets.example.org/v1: not served") ||
		!strings.Contains(status, `"ready":true`) || strings.Contains(status, `"Synced","status":"True"`) {
		t.Errorf("%s, status %s", ran.Outcome, status)
	}

	s = newCluster(t, deletedShop)
	shops = shopsOf(t, s, Program{Sync: sync, Finalize: &finalizer{children: []json.RawMessage{gadget}}, Children: rules})
	shops.run(queue.Start)
	if left := s.stored("shops/a", "metadata"); left != "" {
		t.Errorf("the parent stays: %s; events %q", left, shops.events)
	}
}

// What the last response of a decorator says about the parent is not lost in a conflict: the finalizer goes after it.
func TestTheLastResponseOfAFinalizeHookSurvivesAConflict(t *testing.T) {
	s := newCluster(t, `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"a","uid":"u-a","generation":1,`+
		`"annotations":{"mine":"1"},"finalizers":["example.org/test"]},"spec":{}}`)
	calls := 0
	last := &statusHook{respond: func(int, *hook.Request) *hook.Response {
		calls++
		return &hook.Response{Finalized: calls == 1, Annotations: map[string]*string{"mine": nil}}
	}}
	never := labels.SelectorFromSet(labels.Set{"decorate": "yes"})
	shops := shopsOf(t, s, Program{Sync: idle(), Finalize: last, Mark: plan.Mark{Key: "d", Value: "d"}, Selections: []Selection{{Labels: never}}})
	conflicts := 2
	s.refuse = func(string, string) int {
		conflicts--
		if conflicts >= 0 {
			return http.StatusConflict
		}
		return 0
	}
	for range 4 {
		shops.run(queue.ParentChanged)
	}
	if metadata := s.stored("shops/a", "metadata"); strings.Contains(metadata, "mine") || strings.Contains(metadata, "example.org/test") {
		t.Errorf("the parent has %s", metadata)
	}
	if calls != 1 {
		t.Errorf("%d calls, want one", calls)
	}
}

// guardTest is a guard with parents, children and a clock.
type guardTest struct {
	*DeletionGuard
	t   *testing.T
	now time.Time
}

// newGuardTest returns a guard as after a start. children is how many the controller has.
func newGuardTest(t *testing.T, children int, heldBefore bool) *guardTest {
	l := &guardTest{t: t, now: time.Unix(1e9, 0)}
	l.DeletionGuard = NewDeletionGuard(plan.DefaultDeletionLimit(), func() time.Time { return l.now })
	if heldBefore {
		l.RestoreHeld()
	}
	l.childCount = func(bool) int { return children }
	return l
}

func (l *guardTest) parent(parent int) guardedParent {
	return guardedParent{key: queue.Key{Name: fmt.Sprint(parent)}}
}

// respond runs a parent whose response leaves out this many children.
func (l *guardTest) respond(parent, children int, confirms string) guardDecision {
	l.t.Helper()
	return l.decide(l.parent(parent), false, l.deletions(parent, children), confirms)
}

func (l *guardTest) deletions(parent, children int) []plan.Action {
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

// expect checks the decision about a parent: "made", "waits" or "held".
func (l *guardTest) expect(want string, parent, children int) {
	l.t.Helper()
	got, r := "made", l.respond(parent, children, "")
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

func (l *guardTest) advance(d time.Duration) { l.now = l.now.Add(d) }

// Fault G11: if the hook leaves out the children of 12 parents, none is deleted, not even the
// first, and not after a restart.
func TestMassDeletionIsHeldFromTheStart(t *testing.T) {
	l := newGuardTest(t, 12, false)
	for parent := range 5 {
		l.expect("waits", parent, 1)
	}
	for parent := 5; parent < 12; parent++ {
		l.expect("held", parent, 1)
	}
	l.advance(deletionDelay)
	for parent := range 12 {
		l.expect("held", parent, 1)
	}
	if held := l.heldByController(nil); held.Count != 12 || held.Parents != 12 || len(held.Value) != 16 {
		t.Errorf("held is %+v", held)
	}
	// The hook is fixed: the remaining deletions are below the limit.
	for parent := range 7 {
		l.expect("made", parent, 0)
	}
	if held := l.heldByController(nil); held.Count != 0 {
		t.Errorf("held although it is over: %+v", held)
	}
	l.expect("made", 11, 1)
}

// Fault G11: deletions have to exceed both the share and the count, within the window.
func TestDeletionsBelowTheLimitAreMade(t *testing.T) {
	children := 100
	l := newGuardTest(t, 0, false)
	l.childCount = func(bool) int { return children }
	for parent := range 25 {
		l.expect("waits", parent, 1)
		l.advance(deletionDelay)
		l.expect("made", parent, 1)
		children--
	}
	l.expect("held", 25, 1)
	l.expect("made", 25, 0)
	l.advance(deletionWindow)
	l.expect("waits", 25, 1)
	l.advance(deletionDelay)
	l.expect("made", 25, 1)
	small := newGuardTest(t, 5, false)
	small.expect("made", 1, 5)
}

// Fault G11: new children do not release held deletions, and neither does a restart.
func TestHeldDeletionsStayHeldWhenChildrenAreCreated(t *testing.T) {
	children := 9
	l := newGuardTest(t, 0, false)
	l.childCount = func(bool) int { return children }
	l.expect("waits", 1, 2)
	l.expect("waits", 2, 2)
	l.expect("held", 3, 2)
	children = 100
	l.advance(2 * deletionWindow)
	l.expect("held", 1, 2)

	restarted := newGuardTest(t, 100, true)
	if !restarted.heldUnknown() || l.heldUnknown() {
		t.Error("what is held is not known right after a restart, and known later")
	}
	restarted.expect("waits", 1, 2)
	restarted.expect("waits", 2, 2)
	restarted.expect("held", 3, 2)
	restarted.advance(restartGrace)
	if restarted.heldUnknown() {
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
	for parent := range 12 {
		l.respond(parent, 1, "")
	}
	value := l.heldByController(nil).Value
	l.Allow("another")
	l.expect("held", 3, 1)
	l.Allow(value)
	for parent := range 12 {
		l.expect("made", parent, 1)
	}
	if l.heldUnknown() || l.heldByController(nil) != (controller.HeldDeletions{}) {
		t.Error("a confirmed hold is not over")
	}
	// An old value confirms nothing else.
	for parent := 20; parent < 25; parent++ {
		l.expect("waits", parent, 1)
	}
	l = newGuardTest(t, 12, false)
	l.Allow(value)
	for parent := 12; parent < 24; parent++ {
		l.respond(parent, 1, "")
	}
	l.expect("held", 12, 1)

	restarted := newGuardTest(t, 12, true)
	restarted.Allow(value)
	for parent := range 12 {
		restarted.respond(parent, 1, "")
	}
	for parent := range 12 {
		restarted.expect("made", parent, 1)
	}
}

// Fault G11: the annotation of a parent confirms the deletions of that parent alone.
func TestParentConfirmsItsDeletions(t *testing.T) {
	l := newGuardTest(t, 12, false)
	for parent := range 12 {
		l.respond(parent, 1, "")
	}
	_, value := l.heldChildren(l.parent(4))
	if r := l.respond(4, 1, value); r.held || r.wait > 0 {
		t.Errorf("not made although confirmed: %+v", r)
	}
	if r := l.respond(5, 1, value); !r.held {
		t.Errorf("another parent's deletion was made: %+v", r)
	}
	if held := l.heldByController(nil); held.Count != 11 {
		t.Errorf("held is %+v, want 11 deletions", held)
	}
}

// Pending deletions of a deleted parent do not count.
func TestDropReleasesHeldDeletions(t *testing.T) {
	l := newGuardTest(t, 12, false)
	for parent := range 12 {
		l.respond(parent, 1, "")
	}
	for parent := range 7 {
		l.drop(l.parent(parent))
	}
	if held := l.heldByController(nil); held != (controller.HeldDeletions{}) {
		t.Errorf("held is %+v", held)
	}
}

// Fault G11: an edit of a parent does not release deletions held before it.
func TestEditsDoNotReleaseHeldDeletions(t *testing.T) {
	l := newGuardTest(t, 12, false)
	for parent := range 12 {
		l.respond(parent, 2, "")
	}
	edited := l.deletions(3, 4)
	if still := l.filterHeld(l.parent(3), edited); len(still) != 2 {
		t.Errorf("of 4 deletions, 2 of which were held before the edit, %d are held", len(still))
	}
	if rest := (plan.Plan{Stages: [][]plan.Action{edited}}).Without(edited[:2]); rest.Len() != 2 {
		t.Errorf("%d deletions go on, want 2", rest.Len())
	}
	if still := l.filterHeld(l.parent(12), l.deletions(12, 1)); len(still) != 0 {
		t.Errorf("a deletion that was not wanted before an edit is held: %v", still)
	}
	l.respond(3, 2, confirmationValue(l.pending[l.parent(3)].sum))
	if still := l.filterHeld(l.parent(3), edited); len(still) != 0 {
		t.Errorf("what a person has confirmed is held: %v", still)
	}
}

// Fault G11: an edit of the spec explains deletions for a while, and until a run succeeds. A new
// parent, labels and a status do not.
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
		of := &Controller{program: Program{Parent: c.resource}, tools: Tools{Now: func() time.Time { return now }}}
		r := &run{Controller: of, Run: &controller.Run{}, memory: &memory{}}
		if c.before != "" {
			if r.Stored = parent(c.before); r.noteSpecChange() {
				t.Errorf("%s: a first sight is taken for an edit", c.name)
			}
		}
		r.Stored = parent(c.after)
		if got := r.noteSpecChange(); got != c.want {
			t.Errorf("%s: explained is %v, want %v", c.name, got, c.want)
		}
		r.memory.editPending = false
		now = now.Add(deletionWindow)
		if r.noteSpecChange() {
			t.Errorf("%s: explained after the window", c.name)
		}
	}
}

// A version that deletes two of three children is noticed at the first step of its rollout: 40 deletions are few
// of 600 children, but many of the 60 of the parents that have moved.
func TestDeletionsOfMovedParentsAreComparedWithTheirChildren(t *testing.T) {
	l := newGuardTest(t, 0, false)
	l.childCount = func(moved bool) int {
		if moved {
			return 60
		}
		return 600
	}
	decide := func(parent int) guardDecision { return l.decide(l.parent(parent), true, l.deletions(parent, 2), "") }
	for parent := range 20 {
		decide(parent)
	}
	l.advance(deletionDelay)
	for parent := range 20 {
		if !decide(parent).held {
			t.Errorf("the deletions of parent %d are not held", parent)
		}
	}
	// Taken back, the parents desire their children again, and others may delete as before.
	for parent := range 20 {
		l.expect("made", parent, 0)
	}
	for parent := 20; parent < 60; parent++ {
		l.expect("waits", parent, 2)
	}
	l.advance(deletionDelay)
	for parent := 20; parent < 60; parent++ {
		l.expect("made", parent, 2)
	}
	l.advance(deletionWindow)
	l.expect("waits", 1, 1)
	if l.all.recent != 0 || l.all.pending != 1 || l.moved.recent != 0 || l.moved.pending != 0 {
		t.Errorf("after the window: all %+v, moved %+v", l.all, l.moved)
	}
}
