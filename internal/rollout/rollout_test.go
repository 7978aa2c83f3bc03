package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
)

// model is a controller whose parents the new version reconciles as soon as they have moved.
type model struct {
	spec    *api.Rollout
	version string
	retryAt string
	hashes  []int64
	// failed and blocked are what is observed of moved parents.
	failed                  int
	held, matching, blocked string
	// slow is how many moved parents are not reconciled.
	slow   int
	status *api.RolloutStatus
	now    time.Time
}

func newModel(parents int, spec api.Rollout) *model {
	m := &model{spec: &spec, version: "v1", now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)}
	for i := range parents {
		m.hashes = append(m.hashes, Hash(fmt.Sprintf("uid-%d", i)))
	}
	slices.Sort(m.hashes)
	m.tick()
	return m
}

func (m *model) input() *Input {
	o := Observed{Hashes: slices.Clone(m.hashes), Held: m.held, Matching: m.matching, Blocked: m.blocked}
	if m.status != nil {
		moved := movedAt(m.hashes, m.status.Position)
		o.Failed = min(m.failed, moved)
		o.Reconciled = max(0, moved-o.Failed-m.slow)
		if o.Failed > 0 {
			o.Failure = "Team a/b: sync hook: broken"
		}
	}
	return &Input{Spec: m.spec, Version: m.version, RetryAt: m.retryAt, Status: m.status, Observed: o, Now: m.now}
}

func (m *model) tick() *api.RolloutStatus {
	m.now = m.now.Add(time.Second)
	m.status = Next(m.input())
	return m.status
}

// until ticks until the status has a phase and a percentage, at most an hour.
func (m *model) until(t *testing.T, phase api.RolloutPhase, percent int32) *api.RolloutStatus {
	t.Helper()
	for range 3600 {
		if s := m.tick(); s.Phase == phase && s.Percent == percent {
			return s
		}
	}
	t.Fatalf("the rollout does not reach %s at %d %%: %+v", phase, percent, m.status)
	return nil
}

// expect compares a status: its phase, the versions, the step and the moved parents.
func expect(t *testing.T, when string, s *api.RolloutStatus, want string) {
	t.Helper()
	got := fmt.Sprintf("%s from %q to %q after %q, step %d at %d %%, moved %d",
		s.Phase, s.From, s.To, s.Previous, s.Step, s.Percent, s.Moved)
	if got != want {
		t.Errorf("%s:\ngot  %s\nwant %s", when, got, want)
	}
}

func steps(percents ...int32) []api.RolloutStep {
	var all []api.RolloutStep
	for _, percent := range percents {
		all = append(all, api.RolloutStep{Percent: percent, Pause: api.PositiveDuration{Duration: metav1.Duration{Duration: 10 * time.Second}}})
	}
	return all
}

func TestNextMovesInSteps(t *testing.T) {
	m := newModel(60, api.Rollout{Steps: steps(5, 50, 100), ParentsPerSecond: 10})
	if s := m.status; s.Phase != api.RolloutComplete || s.To != "v1" || Position(s, "v1") != End {
		t.Fatalf("the first version: %+v", s)
	}
	m.version = "v2"
	if got := Position(m.status, "v2"); got != 0 {
		t.Errorf("before the rollout begins, the position is %d, not 0", got)
	}
	began := m.now
	expect(t, "begin", m.tick(), `Stepping from "v1" to "v2" after "", step 1 at 5 %, moved 0`)
	m.tick()
	if s := m.tick(); s.Moved != 3 || s.Reconciled != 3 || s.Total != 60 || s.PausedSince == nil {
		t.Errorf("5 %% of 60: %+v", s)
	}
	m.until(t, api.RolloutStepping, 50)
	for moved := int32(3); m.tick().Moved < 30; moved = m.status.Moved {
		if m.status.Moved > moved+10 {
			t.Fatalf("%d parents moved in a second", m.status.Moved-moved)
		}
	}
	s := m.until(t, api.RolloutComplete, 0)
	if s.To != "v2" || s.From != "" || Position(s, "v2") != End || Former(s, "v2") != "" {
		t.Errorf("complete: %+v", s)
	}
	if took := m.now.Sub(began); took < 30*time.Second || took > time.Minute {
		t.Errorf("three pauses of 10 s took %s", took)
	}
}

func TestNextHasAtLeastOneParentInAStep(t *testing.T) {
	m := newModel(4, api.Rollout{})
	m.version = "v2"
	m.tick()
	expect(t, "5 % of 4", m.tick(), `Stepping from "v1" to "v2" after "", step 1 at 5 %, moved 1`)
}

func TestNextWithoutParents(t *testing.T) {
	m := newModel(0, api.Rollout{})
	m.version = "v2"
	expect(t, "no parents", m.until(t, api.RolloutComplete, 0), `Complete from "" to "v2" after "v1", step 0 at 0 %, moved 0`)
}

func TestNextRollsBack(t *testing.T) {
	never := int32(100)
	for name, c := range map[string]struct {
		rollback api.RolloutRollback
		trouble  func(*model)
		phase    api.RolloutPhase
		blocked  string
		message  string
	}{
		"errors":               {trouble: func(m *model) { m.failed = 1 }, phase: api.RolloutRolledBack, message: "1 of 3 moved parents fail: Team a/b: sync hook: broken"},
		"tolerated errors":     {rollback: api.RolloutRollback{ErrorPercent: new(int32(34))}, trouble: func(m *model) { m.failed = 1 }, phase: api.RolloutStepping},
		"no error tolerated":   {rollback: api.RolloutRollback{ErrorPercent: new(int32(0))}, trouble: func(m *model) { m.failed = 1 }, phase: api.RolloutRolledBack, message: "1 of 3 moved parents fail: Team a/b: sync hook: broken"},
		"never by errors":      {rollback: api.RolloutRollback{ErrorPercent: &never}, trouble: func(m *model) { m.failed = 3 }, phase: api.RolloutStepping, blocked: "3 moved parents fail: Team a/b: sync hook: broken"},
		"held deletions":       {rollback: api.RolloutRollback{ErrorPercent: &never}, trouble: func(m *model) { m.held = "the deletion guard holds" }, phase: api.RolloutRolledBack, message: "the deletion guard holds"},
		"condition":            {trouble: func(m *model) { m.matching = "when is true" }, phase: api.RolloutRolledBack, message: "when is true"},
		"error of a condition": {trouble: func(m *model) { m.blocked = "no such key" }, phase: api.RolloutStepping, blocked: "no such key"},
		"not reconciled":       {trouble: func(m *model) { m.slow = 1 }, phase: api.RolloutStepping},
		"even when paused":     {trouble: func(m *model) { m.failed, m.spec.Paused = 1, true }, phase: api.RolloutRolledBack, message: "1 of 3 moved parents fail: Team a/b: sync hook: broken"},
	} {
		t.Run(name, func(t *testing.T) {
			m := newModel(60, api.Rollout{Steps: steps(5, 100), Rollback: c.rollback})
			m.version = "v2"
			for range 5 {
				m.tick()
			}
			c.trouble(m)
			for range 8 {
				m.tick()
			}
			s := m.status
			if s.Phase != c.phase || s.Blocked != c.blocked || c.message != "" && s.Message != c.message {
				t.Errorf("%+v", s)
			}
			if c.phase == api.RolloutRolledBack && Position(s, "v2") != 0 {
				t.Errorf("position %d after the rollback", s.Position)
			}
		})
	}
}

// After a restart the parents are not known at first. That they seem to be none must not end the step.
func TestNextWaitsUntilTheParentsAreKnown(t *testing.T) {
	m := newModel(60, api.Rollout{Steps: steps(5, 50, 100)})
	m.version = "v2"
	m.until(t, api.RolloutStepping, 5)
	for range 5 {
		m.tick()
	}
	before := m.status
	for range 100 {
		m.now = m.now.Add(time.Second)
		in := m.input()
		in.Observed = Observed{Unknown: true}
		if diff := cmp.Diff(before, Next(in)); diff != "" {
			t.Fatal(diff)
		}
	}
	in := m.input()
	in.Version, in.Observed = "v3", Observed{Unknown: true}
	if s := Next(in); s.Phase != api.RolloutStepping || s.To != "v3" || s.Position != 0 {
		t.Errorf("another version begins: %+v", s)
	}
	m.until(t, api.RolloutComplete, 0)
}

// What blocks a rollout keeps it at its step for as long as it lasts.
func TestNextGoesOnWhenItIsNotBlockedAnyMore(t *testing.T) {
	m := newModel(60, api.Rollout{Steps: steps(5, 100)})
	m.version = "v2"
	m.until(t, api.RolloutStepping, 5)
	for _, blocked := range []string{"no such key", ""} {
		m.blocked, m.spec.Paused = blocked, blocked == ""
		for range 100 {
			if s := m.tick(); s.Percent != 5 {
				t.Fatalf("%+v", s)
			}
		}
	}
	if _, reason, _ := Condition(m.spec, m.status); reason != api.ReasonRolloutPaused {
		t.Errorf("reason %s", reason)
	}
	m.spec.Paused = false
	m.until(t, api.RolloutComplete, 0)
}

func TestNextAfterARollback(t *testing.T) {
	rolledBack := func() *model {
		m := newModel(60, api.Rollout{Steps: steps(5, 100)})
		m.version, m.failed = "v2", 1
		m.until(t, api.RolloutRolledBack, 0)
		m.failed = 0
		for range 50 {
			if s := m.tick(); s.Phase != api.RolloutRolledBack || Former(s, "v2") != "v1" {
				t.Fatalf("%+v", s)
			}
		}
		return m
	}
	m := rolledBack()
	m.retryAt = "now"
	expect(t, "retry", m.tick(), `Stepping from "v1" to "v2" after "", step 1 at 5 %, moved 0`)
	m = rolledBack()
	m.version = "v3"
	expect(t, "a third version", m.tick(), `Stepping from "v1" to "v3" after "", step 1 at 5 %, moved 0`)
	m = rolledBack()
	m.version = "v1"
	expect(t, "undone", m.tick(), `Complete from "" to "v1" after "", step 0 at 0 %, moved 0`)
}

// The version before a complete one is the one that was complete before it, never one that was taken back.
func TestPreviousVersion(t *testing.T) {
	m := newModel(60, api.Rollout{Steps: steps(100), ParentsPerSecond: 100})
	rollOut := func(version, previous string) {
		t.Helper()
		m.version = version
		want := fmt.Sprintf(`Complete from "" to %q after %q, step 0 at 0 %%, moved 0`, version, previous)
		expect(t, version, m.until(t, api.RolloutComplete, 0), want)
	}
	m.version = "v2"
	m.tick()
	rollOut("v2", "v1")
	m.version, m.failed = "bad", 60
	if s := m.until(t, api.RolloutRolledBack, 0); s.From != "v2" || s.Previous != "v1" || !slices.Contains(Used(s), "v1") {
		t.Errorf("taken back: %+v", s)
	}
	m.version, m.failed = "v3", 0
	expect(t, "in the middle", m.tick(), `Stepping from "v2" to "v3" after "v1", step 1 at 100 %, moved 0`)
	rollOut("v3", "v2")
}

func TestNextWhenTheSpecIsEdited(t *testing.T) {
	m := newModel(60, api.Rollout{Steps: steps(5, 50, 100), ParentsPerSecond: 100})
	m.version = "v2"
	m.until(t, api.RolloutStepping, 50)
	m.tick()

	m.spec.Steps = steps(10, 20, 80, 100)
	expect(t, "other steps", m.tick(), `Stepping from "v1" to "v2" after "", step 2 at 50 %, moved 30`)
	m.until(t, api.RolloutStepping, 80)

	m.version = "v3"
	if s := m.tick(); s.From != "v1" || s.To != "v3" || s.Position != 0 || s.Percent != 10 {
		t.Errorf("a third version: %+v", s)
	}
	m.until(t, api.RolloutStepping, 20)
	m.version = "v1"
	if s := m.tick(); s.Phase != api.RolloutComplete || s.To != "v1" || Position(s, "v1") != End {
		t.Errorf("undone: %+v", s)
	}
	m.spec = nil
	if s := m.tick(); s != nil || Position(s, "v1") != End {
		t.Errorf("without spec.rollout: %+v", s)
	}
}

// Whatever happens in whatever order, the percentage goes down only by another version or a rollback, the same
// input has the same result, and the rollout can be completed.
func TestNextInRandomOrder(t *testing.T) {
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := newModel(r.IntN(40), api.Rollout{Steps: steps(5, 30, 100), ParentsPerSecond: 1 + r.Int32N(20)})
		for range 200 {
			before, version, retryAt := m.status, m.version, m.retryAt
			randomEvent(r, m)
			if diff := cmp.Diff(Next(m.input()), Next(m.input())); diff != "" {
				t.Fatalf("seed %d: the same input has two results: %s", seed, diff)
			}
			now := m.tick()
			if m.version == version && m.retryAt == retryAt && now.Phase != api.RolloutRolledBack && before.Phase != api.RolloutRolledBack &&
				now.Phase == before.Phase && (now.Percent < before.Percent || now.Position < before.Position) {
				t.Fatalf("seed %d: from %+v to %+v", seed, before, now)
			}
		}
		m.failed, m.slow, m.held, m.matching, m.blocked, m.spec.Paused = 0, 0, "", "", "", false
		m.retryAt = "at last"
		if s := m.until(t, api.RolloutComplete, 0); s.To != m.version {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}

func randomEvent(r *rand.Rand, m *model) {
	switch r.IntN(12) {
	case 0:
		m.version = fmt.Sprintf("v%d", r.IntN(4))
	case 1:
		m.spec.Paused = !m.spec.Paused
	case 2:
		m.failed = r.IntN(2) * r.IntN(3)
	case 3:
		m.blocked = []string{"", "no such key"}[r.IntN(2)]
	case 4:
		m.slow = r.IntN(3)
	case 5:
		m.held = []string{"", "", "", "held"}[r.IntN(4)]
	case 6:
		m.matching = []string{"", "", "", "matches"}[r.IntN(4)]
	case 7:
		m.hashes = append(m.hashes, Hash(fmt.Sprint(r.Int())))
		slices.Sort(m.hashes)
	case 8:
		if len(m.hashes) > 0 {
			m.hashes = slices.Delete(m.hashes, 0, 1)
		}
	case 9:
		m.retryAt = fmt.Sprint(r.Int())
	case 10:
		m.spec.Steps = [][]api.RolloutStep{steps(100), steps(50, 100), steps(1, 2, 3, 100)}[r.IntN(3)]
	}
}

func TestObservedAddKeepsTheFirstText(t *testing.T) {
	var o Observed
	for _, failure := range []string{"b", "", "a", "c"} {
		o.Add(Observed{Failed: 1, Failure: failure})
	}
	if o.Failed != 4 || o.Failure != "a" {
		t.Errorf("%+v", o)
	}
}

// logic is a hook whose parents are called again when its version changes, as package composite does.
type logic struct {
	Responses

	now      time.Time
	versions []string // of the latest response for each parent
	calls    int
}

func newLogic(parents int) *logic {
	return &logic{now: time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC), versions: make([]string, parents)}
}

func (l *logic) call(parent int, version string) {
	l.calls++
	l.versions[parent] = l.Add(version, l.now)
}

// run lets time pass. Parents with another version than the current one are called again, ten in a second.
func (l *logic) run(d time.Duration, version func(parent int) string) (changes int) {
	for end := l.now.Add(d); l.now.Before(end); l.now = l.now.Add(time.Second) {
		if _, changed := l.Settle(l.now); changed {
			changes++
		}
		if !l.Settled(l.now) {
			continue
		}
		queued := 0
		for parent, had := range l.versions {
			if had != "" && had != l.Current() && queued < 10 {
				queued++
				l.call(parent, version(parent))
			}
		}
	}
	return changes
}

func always(version string) func(int) string { return func(int) string { return version } }

func TestResponsesFollowAVersion(t *testing.T) {
	l := newLogic(100)
	for parent := range 100 {
		l.call(parent, "one")
	}
	if changes := l.run(time.Minute, always("one")); changes != 0 || l.Current() != "one" || l.calls != 100 {
		t.Fatalf("the first version: %d changes, %q, %d calls", changes, l.Current(), l.calls)
	}
	// One parent is reconciled after the hook was replaced.
	l.call(0, "two")
	l.run(SettleTime-time.Second, always("two"))
	if l.Current() != "one" {
		t.Errorf("%q counts at once", l.Current())
	}
	if changes := l.run(time.Minute, always("two")); changes != 1 || l.Current() != "two" || l.calls != 200 {
		t.Errorf("the second version: %d changes, %q, %d calls", changes, l.Current(), l.calls)
	}
	if problem := l.Problem(l.now); problem != "" {
		t.Error(problem)
	}
}

// While replicas have different versions, nothing is called because of them; later those with the older one are.
func TestResponsesOfReplicas(t *testing.T) {
	l := newLogic(10)
	for parent := range 10 {
		l.call(parent, "one")
	}
	l.run(time.Minute, always("one"))
	before := l.calls
	for i := range 300 {
		l.call(i%10, []string{"one", "two"}[i%2])
		if changes := l.run(time.Second, always("two")); changes > 0 {
			t.Fatal("changed while both respond")
		}
	}
	if l.calls != before+300 {
		t.Errorf("%d calls because of replicas", l.calls-before-300)
	}
	l.run(time.Minute, always("two"))
	if l.Current() != "two" || l.calls != before+305 {
		t.Errorf("%q, %d calls", l.Current(), l.calls-before)
	}
	// Without an end it is a problem.
	for i := range 700 {
		l.call(i%10, []string{"one", "two"}[i%2])
		l.run(time.Second, always("two"))
	}
	if problem := l.Problem(l.now); !strings.Contains(problem, "different values") {
		t.Errorf("problem %q", problem)
	}
}

// Versions that mean nothing cause few calls: one per parent, or one per call.
func TestResponsesWithoutMeaning(t *testing.T) {
	n := 0
	for name, version := range map[string]func(int) string{
		"per parent": func(parent int) string { return fmt.Sprint("parent ", parent) },
		"per call":   func(int) string { n++; return fmt.Sprint("call ", n) },
	} {
		l := newLogic(200)
		for parent := range 200 {
			l.call(parent, version(parent))
		}
		l.run(5*time.Hour, version)
		if more := l.calls - 200; more > 5*(maxChanges+1)*10 {
			t.Errorf("%s: %d calls in five hours", name, more)
		}
		if l.Problem(l.now) == "" {
			t.Errorf("%s: no problem", name)
		}
	}
}

func TestResponsesWithoutAVersion(t *testing.T) {
	l := newLogic(2)
	l.call(0, "")
	l.call(1, "one")
	l.call(0, "")
	l.run(time.Hour, always(""))
	if l.Current() != "one" || l.calls != 3 {
		t.Errorf("%q, %d calls", l.Current(), l.calls)
	}
	if !l.HasNone(l.now) {
		t.Error("responses have had a version")
	}
	l.call(0, "one")
	l.run(time.Minute, always("one"))
	if l.HasNone(l.now) {
		t.Error("the latest response has no version")
	}
	var restored Responses
	restored.Restore("one")
	restored.Add("two", l.now)
	if before, changed := restored.Settle(l.now.Add(SettleTime)); !changed || before != "one" {
		t.Errorf("after a restart: %q, %v", before, changed)
	}
}

// inShadow returns a model of 20 parents whose rollout to v2 is in the shadow.
func inShadow(t *testing.T, spec api.Rollout) *model {
	t.Helper()
	if spec.Shadow == nil {
		spec.Shadow = &api.RolloutShadow{Pause: api.PositiveDuration{Duration: metav1.Duration{Duration: 10 * time.Second}}}
	}
	m := newModel(20, spec)
	m.version = "v2"
	if s := m.tick(); s.Phase != api.RolloutInShadow || s.Step != 0 || Position(s, "v2") != 0 || !Compares(s, "v2") || Compares(s, "v1") {
		t.Fatalf("the rollout begins: %+v", s)
	}
	return m
}

// tickWith ticks with what the comparison has shown.
func (m *model) tickWith(shadow Shadow) *api.RolloutStatus {
	m.now = m.now.Add(time.Second)
	in := m.input()
	in.Observed.Shadow = shadow
	m.status = Next(in)
	return m.status
}

func TestShadowEndsWhenAllWereComparedAndThePauseIsOver(t *testing.T) {
	m := inShadow(t, api.Rollout{})
	for range 60 {
		if s := m.tickWith(Shadow{Compared: 19}); s.Phase != api.RolloutInShadow || s.PausedSince != nil || s.Moved != 0 {
			t.Fatalf("one parent is not compared: %+v", s)
		}
	}
	before := m.status
	if s := m.tickWith(Shadow{Compared: 20, Different: 20}); s.PausedSince == nil || SameStep(before, s) || !strings.Contains(s.Message, "20 parents compared, 20 with a different response") {
		t.Fatalf("all are compared: %+v", s)
	}
	for range 9 {
		if s := m.tickWith(Shadow{Compared: 20, Different: 20}); s.Phase != api.RolloutInShadow {
			t.Fatalf("the pause is not over: %+v", s)
		}
	}
	s := m.tickWith(Shadow{Compared: 20, Different: 20})
	if s.Phase != api.RolloutStepping || s.Step != 1 || s.Percent != 5 || s.PausedSince != nil || s.Shadow.Different != 20 {
		t.Errorf("the first step: %+v", s)
	}
}

// After a restart nothing is known of the comparisons, and the rollout waits until all were made again.
func TestShadowAfterARestart(t *testing.T) {
	m := inShadow(t, api.Rollout{})
	m.tickWith(Shadow{Compared: 20})
	for range 30 {
		if s := m.tickWith(Shadow{Compared: 3}); s.Phase != api.RolloutInShadow {
			t.Fatalf("3 of 20 are compared: %+v", s)
		}
	}
	expect(t, "all are compared again", m.tickWith(Shadow{Compared: 20}), `Stepping from "v1" to "v2" after "", step 1 at 5 %, moved 0`)
}

func TestShadowStops(t *testing.T) {
	percent := func(n int32) *int32 { return &n }
	for name, c := range map[string]struct {
		spec   api.Rollout
		shadow Shadow
		want   string
	}{
		"differences":             {api.Rollout{}, Shadow{Compared: 20, Different: 20}, "Stepping: step 1"},
		"paused":                  {api.Rollout{Paused: true}, Shadow{Compared: 20}, "Shadow: paused by spec.rollout.paused"},
		"too many differences":    {api.Rollout{Shadow: &api.RolloutShadow{MaxDifferentPercent: percent(10)}}, Shadow{Compared: 20, Different: 3}, "Shadow: blocked: 3 of 20 parents get different"},
		"as many as are allowed":  {api.Rollout{Shadow: &api.RolloutShadow{MaxDifferentPercent: percent(10)}}, Shadow{Compared: 20, Different: 2}, "Stepping: step 1"},
		"no difference allowed":   {api.Rollout{Shadow: &api.RolloutShadow{MaxDifferentPercent: percent(0)}}, Shadow{Compared: 20, Different: 1}, "Shadow: blocked"},
		"deletions":               {api.Rollout{}, Shadow{Compared: 20, Deletions: map[string]int{"Service": 1, "ConfigMap": 3}, Held: true}, "Shadow: blocked: it would delete 3 ConfigMaps, 1 Service,"},
		"few deletions":           {api.Rollout{}, Shadow{Compared: 20, Deletions: map[string]int{"Service": 1}}, "Stepping: step 1"},
		"failures":                {api.Rollout{}, Shadow{Compared: 3, Failed: 3, Failure: "Team a: broken"}, "RolledBack: shadow: the new version fails for 3 of 20 parents: Team a: broken"},
		"failures for now":        {api.Rollout{}, Shadow{Compared: 3, Retrying: 3, RetryingFailure: "Team a: refused"}, "Shadow: being compared"},
		"fewer than the limit":    {api.Rollout{Rollback: api.RolloutRollback{ErrorPercent: percent(50)}}, Shadow{Compared: 3, Failed: 1, Failure: "Team a: refused"}, "Shadow: being compared; the new version fails: Team a: refused"},
		"few failures":            {api.Rollout{}, Shadow{Compared: 20, Failed: 2}, "Stepping: step 1"},
		"failures while paused":   {api.Rollout{Paused: true}, Shadow{Compared: 3, Failed: 3}, "RolledBack: "},
		"failures do not matter":  {api.Rollout{Rollback: api.RolloutRollback{ErrorPercent: percent(100)}}, Shadow{Compared: 20, Failed: 20, Failure: "broken"}, "Shadow: blocked: the new version fails for 20 of 20 parents: broken"},
		"too many, not all known": {api.Rollout{Shadow: &api.RolloutShadow{MaxDifferentPercent: percent(10)}}, Shadow{Compared: 3, Different: 3}, "Shadow: being compared"},
	} {
		m := inShadow(t, c.spec)
		s := m.tickWith(c.shadow)
		for range 90 {
			if s = m.tickWith(c.shadow); s.Phase != api.RolloutInShadow {
				break
			}
		}
		phase, text, _ := strings.Cut(c.want, ": ")
		if string(s.Phase) != phase || !strings.Contains(s.Message, text) {
			t.Errorf("%s: %s: %q, want %s", name, s.Phase, s.Message, c.want)
		}
	}
}

func TestShadowIsLeft(t *testing.T) {
	m := inShadow(t, api.Rollout{})
	m.version = "v3"
	expect(t, "another change", m.tick(), `Shadow from "v1" to "v3" after "", step 0 at 0 %, moved 0`)
	m.spec.Shadow = nil
	expect(t, "spec.rollout.shadow is removed", m.tick(), `Stepping from "v1" to "v3" after "", step 1 at 5 %, moved 0`)
	m = inShadow(t, api.Rollout{})
	m.version = "v1"
	if s := m.tick(); s.Phase != api.RolloutComplete || s.Shadow != nil {
		t.Errorf("back: %+v", s)
	}
	m = inShadow(t, api.Rollout{})
	m.tickWith(Shadow{Compared: 20, Failed: 20})
	m.retryAt = "now"
	if s := m.tick(); s.Phase != api.RolloutInShadow || s.Shadow.Compared != 0 {
		t.Errorf("again after a rollback: %+v", s)
	}
}

// The examples are the most severe, whatever the order of the comparisons.
func TestShadowExamples(t *testing.T) {
	var o Observed
	for i := range 50 {
		o.Add(Observed{Shadow: Shadow{Compared: 1, Deletions: map[string]int{"Pod": 1}, Examples: []Example{
			{RolloutDifference: api.RolloutDifference{Object: fmt.Sprintf("Team %02d", (i*7)%50), Text: "x"}, Severity: (i * 7) % 50 / 25},
		}}})
	}
	status := o.Shadow.status()
	if len(status.Examples) != maxExamples || status.Examples[0].Object != "Team 00" || status.Examples[4].Object != "Team 04" || status.WouldDelete != "50 Pods" || status.Compared != 50 {
		t.Errorf("%+v", status)
	}
}

// A parent with many differences leaves room for those of others, but not before more severe ones.
func TestShadowExamplesOfManyParents(t *testing.T) {
	var all []Observed
	for i := range 20 {
		one := Shadow{Compared: 1}
		for repeats := range 3 {
			one.Examples = append(one.Examples, Example{
				RolloutDifference: api.RolloutDifference{Object: fmt.Sprintf("Team %02d", i), Text: fmt.Sprint(repeats)}, Severity: 1, Repeats: repeats,
			})
		}
		all = append(all, Observed{Shadow: one})
	}
	all[7].Shadow.Examples = append(all[7].Shadow.Examples, Example{RolloutDifference: api.RolloutDifference{Object: "Team 07", Text: "deleted"}})
	for _, order := range [][]int{{0, 1, 2, 3, 4, 5, 6, 7}, {7, 6, 5, 4, 3, 2, 1, 0}, {7, 0, 1, 2, 3, 4, 5, 6}} {
		var o Observed
		for _, i := range order {
			o.Add(all[i])
		}
		var got []string
		for _, each := range o.Shadow.status().Examples {
			got = append(got, each.Object+" "+each.Text)
		}
		if want := "Team 07 deleted, Team 00 0, Team 01 0, Team 02 0, Team 03 0"; strings.Join(got, ", ") != want {
			t.Errorf("in the order %v: %s, want %s", order, strings.Join(got, ", "), want)
		}
	}
}
