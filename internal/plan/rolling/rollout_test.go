package rolling

import (
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

var webs = object.Resource{Group: "example.org", Version: "v1", Plural: "webs", Kind: "Web", Namespaced: true, Status: true, Custom: true}

// rollingPlanner has one rolling rule and one that is not.
func rollingPlanner(t testing.TB, parent string, method plan.UpdateMethod, most int) *plan.Planner {
	t.Helper()
	return &plan.Planner{
		Parent: parse(t, parent), Namespaced: true, Selector: labels.Everything(), LastApplied: lastApplied,
		Rules: plan.Rules{
			{Resource: object.ConfigMaps, Method: plan.InPlace},
			{Resource: webs, Method: method, MaxUnavailable: most, StatusChecks: []plan.StatusCheck{{Type: "Ready", Status: "True"}}},
		},
	}
}

const shop = `{"apiVersion":"example.org/v1","kind":"Shop","metadata":{"name":"books","namespace":"town","uid":"parent-uid","generation":1},"spec":{"image":"b"}}`

func web(name int, image string) string {
	return fmt.Sprintf(`{"apiVersion":"example.org/v1","kind":"Web","metadata":{"name":"w%d"},"spec":{"image":%q}}`, name, image)
}

// rolloutFixture is a rollout in a short notation. Each child has three letters: the previous
// revision that claims it, or "."; its image, or "_" if it does not exist; and "+" for ready, "-"
// for not ready, "~" for an outdated status, "x" for deleting. Revisions are named by their image;
// the latest is b.
type rolloutFixture struct {
	t     testing.TB
	f     *plan.Planner
	child []string
	// wanted and made cache objects that are used repeatedly.
	wanted map[string][]plan.Child
	made   map[string]*object.Object
}

func newRolloutFixture(t testing.TB, method plan.UpdateMethod, most int, children string) rolloutFixture {
	t.Helper()
	return rolloutFixture{t, rollingPlanner(t, shop, method, most), strings.FieldsFunc(children, func(r rune) bool { return r == ',' }), map[string][]plan.Child{}, map[string]*object.Object{}}
}

func (s rolloutFixture) desired(image string) []plan.Child {
	s.t.Helper()
	for i := len(s.wanted[image]); i < len(s.child); i++ {
		children, _, err := s.f.Desired([]json.RawMessage{[]byte(web(i, image))})
		must.Succeed(s.t, err)
		s.wanted[image] = append(s.wanted[image], children...)
	}
	return slices.Clone(s.wanted[image])[:len(s.child)]
}

func (s rolloutFixture) observed() []*object.Object {
	s.t.Helper()
	var all []*object.Object
	for i, letters := range s.child {
		if letters[1] == '_' {
			continue
		}
		made := fmt.Sprint(i, letters[1:])
		if s.made[made] == nil {
			s.made[made] = s.stored(i, string(letters[1]), letters[2])
		}
		all = append(all, s.made[made])
	}
	return all
}

// stored returns a child as created at a revision.
func (s rolloutFixture) stored(i int, image string, health byte) *object.Object {
	s.t.Helper()
	p := must.Get(s.f.Changes(nil, s.desired(image)[i:i+1], nil)).In(s.t)
	edits := []object.Edit{
		{Value: fmt.Appendf(nil, `"uid-%d"`, i), Path: []string{"metadata", "uid"}},
		{Value: []byte("2"), Path: []string{"metadata", "generation"}},
	}
	status := `{"observedGeneration":2,"conditions":[{"type":"Ready","status":"True"}]}`
	switch health {
	case '-':
		status = strings.Replace(status, "True", "False", 1)
	case '~':
		status = strings.Replace(status, "2", "1", 1)
	case 'x':
		edits = append(edits, object.Edit{Value: []byte(`"2026-01-01T00:00:00Z"`), Path: []string{"metadata", "deletionTimestamp"}})
	}
	edits = append(edits, object.Edit{Value: []byte(status), Path: []string{"status"}})
	return must.Get(p.Stages[0][0].After.Edited(edits...)).In(s.t)
}

// previous returns the previous revisions in the order of their letters. "?" does not know its
// children.
func (s rolloutFixture) previous() (letters []byte, revisions []Revision) {
	for _, child := range s.child {
		if child[0] != '.' && !slices.Contains(letters, child[0]) {
			letters = append(letters, child[0])
		}
	}
	slices.Sort(letters)
	for _, letter := range letters {
		previous := Revision{Claims: Claims{}}
		if letter != '?' {
			previous.Children = s.desired(string(letter))
		}
		for i, child := range s.child {
			if child[0] == letter {
				previous.Claims[plan.KeyOf(s.desired("b")[i].Object)] = true
			}
		}
		revisions = append(revisions, previous)
	}
	return letters, revisions
}

func (s rolloutFixture) step() Step {
	s.t.Helper()
	_, revisions := s.previous()
	return must.Get((&Rollout{Family: s.f, Observed: s.observed(), Latest: s.desired("b"), Previous: revisions}).Step()).In(s.t)
}

// outcome returns the claim on each child after a step and the write to it: the new image, "d" for
// a deletion, "=" for nothing.
func (s rolloutFixture) outcome(step Step) string {
	s.t.Helper()
	p := must.Get(s.f.Changes(s.observed(), step.Desired, nil)).In(s.t)
	does := map[string]string{}
	for _, stage := range p.Stages {
		for _, action := range stage {
			does[action.Ref.Name] = "d"
			if action.Verb != plan.Delete {
				does[action.Ref.Name] = strings.Trim(string(action.After.Field("spec", "image")), `"`)
			}
		}
	}
	letters, _ := s.previous()
	var text []string
	for i, child := range s.desired("b") {
		claim := "."
		for previous, claims := range step.Claims {
			if claims.Has(child.Object) {
				claim = string(letters[previous])
			}
		}
		done := does[fmt.Sprintf("w%d", i)]
		if done == "" {
			done = "="
		}
		text = append(text, claim+done)
	}
	return strings.Join(text, ",")
}

func TestRollout(t *testing.T) {
	for _, c := range []struct {
		name, children string
		most           int
		want, reason   string
	}{
		{"nothing to do", ".b+,.b+,.b+", 1, ".=,.=,.=", OnLatestRevision},
		{"updated, but not ready", ".b+,.b-,.b+", 1, ".=,.=,.=", OnLatestRevision},
		{"created", "._+,._+,._+", 1, ".b,.b,.b", RolloutProgressing},
		{"the first is moved", "aa+,aa+,aa+", 1, ".b,a=,a=", RolloutProgressing},
		{"the next, once it is well", ".b+,aa+,aa+", 1, ".=,.b,a=", RolloutProgressing},
		{"the last", ".b+,.b+,aa+", 1, ".=,.=,.b", RolloutProgressing},
		{"none while it is not ready", ".b-,aa+,aa+", 1, ".=,a=,a=", RolloutWaiting},
		{"none while its status is out of date", ".b~,aa+,aa+", 1, ".=,a=,a=", RolloutWaiting},
		{"none while it is being deleted", ".bx,aa+,aa+", 1, ".=,a=,a=", RolloutWaiting},
		{"none while it is missing", "._+,aa+,aa+", 1, ".b,a=,a=", RolloutProgressing},
		{"two at once", "aa+,aa+,aa+", 2, ".b,.b,a=", RolloutProgressing},
		{"two at once, one under way", ".b-,aa+,aa+", 2, ".=,.b,a=", RolloutProgressing},
		{"two at once, both under way", ".b-,.b~,aa+", 2, ".=,.=,a=", RolloutWaiting},
		{"more than there are", "aa+,aa+", 5, ".b,.b", RolloutProgressing},

		{"an unready one first: it costs nothing", "aa+,aa-,aa+", 1, "a=,.b,a=", RolloutProgressing},
		{"a missing one first", "aa+,aa+,a_+", 1, "a=,a=,.b", RolloutProgressing},
		{"one of many not ready", "aa-,aa-,aa-", 1, ".b,a=,a=", RolloutProgressing},
		{"one that is going comes back new", "aa+,aax,aa+", 1, "a=,.=,a=", RolloutProgressing},
		{"a missing one comes back old while a moved one is not ready", ".b-,a_+,aa+", 1, ".=,aa,a=", RolloutWaiting},

		{"edited in the middle", "ac-,aa+,cc+", 1, ".b,a=,c=", RolloutProgressing},
		{"abandoned, the unready first", "cc+,cc-,aa+", 1, "c=,.b,a=", RolloutProgressing},
		{"rolled back in the middle", "cc-,.b+,.b+", 1, ".b,.=,.=", RolloutProgressing},

		{"moved, then died before it was written", ".a+,aa+,aa+", 1, ".b,a=,a=", RolloutProgressing},
		{"the same, and another is not ready", ".a+,.b-,aa+", 1, ".b,.=,a=", RolloutProgressing},
		{"the hook wants others of all", ".a+,.a+,.a+", 1, ".b,.b,.b", RolloutProgressing},
		{"put right while a moved one is not ready", ".b-,.a-,aa+", 1, ".=,.b,a=", RolloutProgressing},
		{"claimed, but there already", "ab+,ab-,aa+", 1, ".=,.=,a=", RolloutWaiting},
		{"claimed, changed and not ready", ".b-,ad-,aa+", 1, ".=,aa,a=", RolloutWaiting},
		{"claimed, spoilt but well", ".b-,ad+,aa+", 1, ".=,aa,a=", RolloutWaiting},
		{"claimed and spoilt, so it is moved first", "aa+,ad+,aa+", 1, "a=,.b,a=", RolloutProgressing},
		{"a change that changes no child", "bb+,bb+,bb-", 1, ".=,.=,.=", OnLatestRevision},
		{"a change that changes no child, one missing", "bb+,b_-,bb-", 1, ".=,.b,.=", RolloutProgressing},

		{"the previous revision says nothing", "?a+,?a+,?a+", 1, ".b,?=,?=", RolloutProgressing},
		{"it says nothing while a moved one is not ready", ".b-,?a-,?_+", 1, ".=,?=,?=", RolloutWaiting},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newRolloutFixture(t, plan.RollingInPlace, c.most, c.children)
			step := s.step()
			if got := s.outcome(step); got != c.want || step.Progress.Reason != c.reason {
				t.Errorf("%s: got %s, %s (%s)\nwant %s, %s", c.children, got, step.Progress.Reason, step.Progress.Message, c.want, c.reason)
			}
			recreated := newRolloutFixture(t, plan.RollingRecreate, c.most, c.children)
			if got, want := recreated.outcome(recreated.step()), deleting(c.children, c.want); got != want {
				t.Errorf("RollingRecreate: %s: got %s, want %s", c.children, got, want)
			}
		})
	}
}

// deleting returns the outcome for RollingRecreate, which deletes instead of updating.
func deleting(children, does string) string {
	all := strings.Split(does, ",")
	for i, child := range strings.Split(children, ",") {
		if child[1] != '_' && all[i][1] != '=' {
			all[i] = all[i][:1] + "d"
		}
	}
	return strings.Join(all, ",")
}

func TestProgressMessage(t *testing.T) {
	for children, want := range map[string]string{
		".b+,.b+":                 "all 2 children are at the latest revision",
		".b-":                     "the one child is at the latest revision",
		".b+,aa+,aa+":             "1 of 3 children are at the latest revision; updating Web town/w1",
		".b-,aa+,aa+":             "1 of 3 children are at the latest revision; waiting for Web town/w0: its condition Ready is False, not True",
		".b~,aa-":                 "1 of 2 children are at the latest revision; waiting for Web town/w0: its status is not up to date yet; Web town/w1: its condition Ready is False, not True",
		".bx,aa+":                 "0 of 2 children are at the latest revision; waiting for Web town/w0: it is being deleted",
		"._+,._+,._+,._+,._+,aa+": "0 of 6 children are at the latest revision; updating Web town/w0, Web town/w1, Web town/w2 and 2 more",
	} {
		if got := newRolloutFixture(t, plan.RollingInPlace, 1, children).step().Progress.Message; got != want {
			t.Errorf("%s: got  %s\nwant %s", children, got, want)
		}
	}
}

// TestEveryRollout goes through every state of two children beside a third.
func TestEveryRollout(t *testing.T) {
	var states []string
	for _, claim := range []string{".", "a"} {
		for _, is := range []string{"_-", "bx", "a+", "a-", "b+", "b-"} {
			states = append(states, claim+is)
		}
	}
	for most := 1; most <= 2; most++ {
		s := newRolloutFixture(t, plan.RollingInPlace, most, "")
		for _, first := range states {
			for _, second := range states {
				for _, third := range []string{"._-", "aa+", "aa-", ".b+"} {
					s.child = []string{first, second, third}
					checkStep(t, s, most)
				}
			}
		}
	}
}

// checkStep checks the guarantees of one step.
func checkStep(t *testing.T, s rolloutFixture, most int) {
	t.Helper()
	step := s.step()
	outcome := strings.Split(s.outcome(step), ",")
	var unavailable, followers, behind, moved, movedReady, wrong int
	for i, child := range s.child {
		became := outcome[i]
		isBehind := child[0] == 'a' && (child[1] != 'b' || child[2] == 'x')
		wants := child[:1]
		if !isBehind {
			wants = "b"
		}
		isDisturbed := child[2] != '+' || child[1:2] != wants
		isMoved := isBehind && became[0] == '.'
		behind += count(isBehind)
		unavailable += count(isDisturbed)
		followers += count(isDisturbed && !isBehind)
		moved += count(isMoved)
		movedReady += count(isMoved && !isDisturbed)
		wrong += count(child[1] != 'b' || child[2] == 'x')
		if became[0] == 'a' && became[1] == 'b' {
			t.Errorf("%v of %d: %v: a claimed child is made as the latest revision wants it", s.child, most, outcome)
		}
		if there := child[1] != '_' && child[2] != 'x'; (child[1] == '_' || there && isDisturbed && child[1:2] != wants) && became[1] == '=' {
			t.Errorf("%v of %d: %v: a child is not brought to its revision", s.child, most, outcome)
		}
	}
	if movedReady > 0 && unavailable+movedReady > most {
		t.Errorf("%v of %d: %v: too many would be unavailable", s.child, most, outcome)
	}
	if moved > 0 && followers+moved > most {
		t.Errorf("%v of %d: %v: moved while those that were moved are not ready", s.child, most, outcome)
	}
	if behind > 0 && followers == 0 && moved == 0 {
		t.Errorf("%v of %d: %v: none that was moved is not ready, and it does not go on", s.child, most, outcome)
	}
	if done := step.Progress.Done(); done != (wrong == 0) {
		t.Errorf("%v of %d: %v: done: %v, although %d are not", s.child, most, outcome, done, wrong)
	}
	if waiting := step.Progress.Reason == RolloutWaiting; waiting && !strings.Contains(step.Progress.Message, "Web town/w") {
		t.Errorf("%v of %d: it waits for nothing: %s", s.child, most, step.Progress.Message)
	}
}

func TestFrozenRolloutMovesNothing(t *testing.T) {
	s := newRolloutFixture(t, plan.RollingInPlace, 1, "aa+,.a+,a_+,ad+,?a+")
	_, revisions := s.previous()
	step := must.Get((&Rollout{Family: s.f, Observed: s.observed(), Latest: s.desired("b"), Previous: revisions, Frozen: true}).Step()).In(t)
	if got, want := s.outcome(step), "a=,.b,aa,aa,?="; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Children of other rules follow the latest revision at once.
func TestRolloutLeavesOtherRulesAlone(t *testing.T) {
	s := newRolloutFixture(t, plan.RollingInPlace, 1, ".b-,aa+,aa+")
	latest, _, err := s.f.Desired([]json.RawMessage{
		[]byte(`{"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "c"}}`), []byte(web(0, "b")), []byte(web(1, "b")),
	})
	must.Succeed(t, err)
	_, revisions := s.previous()
	step := must.Get((&Rollout{Family: s.f, Observed: s.observed(), Latest: latest, Previous: revisions}).Step()).In(t)
	p := must.Get(s.f.Changes(s.observed(), step.Desired, nil)).In(t)
	if got, want := p.String(), "1. delete Web town/w2: no longer desired\n2. create ConfigMap town/c: missing\n"; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
	if step.Claims[0].Has(s.desired("b")[2].Object) {
		t.Error("an undesired child is still claimed")
	}
}

// Expressions decide whether a child is ready, and whether a rollout goes on. One that fails decides neither way.
func TestRolloutExpressions(t *testing.T) {
	errBroken := errors.New("no such key: ready")
	always := func(holds bool, err error) *plan.Pause {
		return &plan.Pause{Field: "spec.pause", Holds: func(*object.Object, []*object.Object) (bool, error) { return holds, err }}
	}
	for name, c := range map[string]struct {
		children  string
		fails     string
		pause     *plan.Pause
		want, why string
		failed    int
	}{
		"all ready":              {children: ".b+,aa+,aa+", want: ".=,.b,a=", why: "RolloutProgressing: 1 of 3 children are at the latest revision; updating Web town/w1"},
		"one is not":             {children: ".b+,aa+,aa+", fails: "w0", want: ".=,a=,a=", why: "RolloutWaiting: 1 of 3 children are at the latest revision; waiting for Web town/w0: it is cold"},
		"not known":              {children: ".b+,aa+,aa+", fails: "w0!", want: ".=,a=,a=", why: "RolloutWaiting: 1 of 3 children are at the latest revision; waiting for Web town/w0: a status check failed: no such key: ready", failed: 1},
		"not paused":             {children: ".b+,aa+,aa+", pause: always(false, nil), want: ".=,.b,a=", why: "RolloutProgressing: 1 of 3 children are at the latest revision; updating Web town/w1"},
		"paused":                 {children: ".b+,aa+,aa+", pause: always(true, nil), want: ".=,a=,a=", why: "RolloutPaused: 1 of 3 children are at the latest revision; paused: spec.pause is true"},
		"paused, one is broken":  {children: ".b+,aa-,aa+", pause: always(true, nil), want: ".=,a=,a=", why: "RolloutPaused: 1 of 3 children are at the latest revision; paused: spec.pause is true"},
		"paused, one is created": {children: ".b+,aa+,._+", pause: always(true, nil), want: ".=,a=,.b", why: "RolloutProgressing: 1 of 3 children are at the latest revision; updating Web town/w2"},
		"pause not known":        {children: ".b+,aa+,aa+", pause: always(false, errBroken), want: ".=,a=,a=", why: "RolloutPaused: 1 of 3 children are at the latest revision; paused: no such key: ready", failed: 1},
		"nothing to pause":       {children: ".b+,.b+,.b+", pause: always(false, errBroken), want: ".=,.=,.=", why: "OnLatestRevision: all 3 children are at the latest revision"},
	} {
		t.Run(name, func(t *testing.T) {
			s := newRolloutFixture(t, plan.RollingInPlace, 1, c.children)
			rule := &s.f.Rules[1]
			rule.Pause = c.pause
			rule.ExpressionChecks = []plan.ExpressionCheck{{Message: "it is cold", Holds: func(child, parent *object.Object) (bool, error) {
				if parent.Name() != "books" {
					t.Errorf("the parent is %s", parent.Name())
				}
				if c.fails == child.Name()+"!" {
					return false, errBroken
				}
				return c.fails != child.Name(), nil
			}}}
			step := s.step()
			why := step.Progress.Reason + ": " + step.Progress.Message
			if got := s.outcome(step); got != c.want || why != c.why || len(step.Failed) != c.failed {
				t.Errorf("got %s, %s, errors %v\nwant %s, %s", got, why, step.Failed, c.want, c.why)
			}
		})
	}
}

// lastApplied is the annotation of the tests' planners.
const lastApplied = "example.org/last-applied"

func parse(t testing.TB, text string) *object.Object {
	t.Helper()
	return must.Get(object.Parse([]byte(text))).In(t)
}

func decode(t *testing.T, text []byte) any {
	t.Helper()
	return must.Get(object.Decode(text)).In(t)
}

// generator makes random events.
type generator struct{ *rand.Rand }

func (g generator) pick(values ...any) any { return values[g.IntN(len(values))] }

// seeded runs a property many times. A failure names the seed.
func seeded(t *testing.T, times int, property func(t *testing.T, g generator)) {
	t.Helper()
	start := rand.Uint64()
	for i := range uint64(times) {
		seed := start + i
		property(t, generator{rand.New(rand.NewPCG(seed, 0))})
		if t.Failed() {
			t.Fatalf("with seed %d", seed)
		}
	}
}
