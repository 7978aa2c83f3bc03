package rollout

import (
	"fmt"
	"math/rand/v2"
	"slices"
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
	if s := m.tick(); s.Phase != api.RolloutStepping || s.From != "v1" || s.To != "v2" || s.Step != 1 || s.Moved != 0 {
		t.Errorf("begin: %+v", s)
	}
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
	if s := m.tick(); s.Moved != 1 {
		t.Errorf("5 %% of 4 are %d parents", s.Moved)
	}
}

func TestNextWithoutParents(t *testing.T) {
	m := newModel(0, api.Rollout{})
	m.version = "v2"
	if s := m.until(t, api.RolloutComplete, 0); s.To != "v2" {
		t.Errorf("%+v", s)
	}
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
	m.blocked = "no such key"
	for range 100 {
		if s := m.tick(); s.Percent != 5 {
			t.Fatalf("%+v", s)
		}
	}
	m.blocked, m.spec.Paused = "", true
	for range 100 {
		if s := m.tick(); s.Percent != 5 {
			t.Fatalf("%+v", s)
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
	if s := m.tick(); s.Phase != api.RolloutStepping || s.From != "v1" || s.To != "v2" || s.Moved != 0 {
		t.Errorf("retry: %+v", s)
	}
	m = rolledBack()
	m.version = "v3"
	if s := m.tick(); s.Phase != api.RolloutStepping || s.From != "v1" || s.To != "v3" {
		t.Errorf("a third version: %+v", s)
	}
	m = rolledBack()
	m.version = "v1"
	if s := m.tick(); s.Phase != api.RolloutComplete || s.To != "v1" || s.Previous != "" {
		t.Errorf("undone: %+v", s)
	}
}

// The version before a complete one is the one that was complete before it, never one that was taken back.
func TestPreviousVersion(t *testing.T) {
	m := newModel(60, api.Rollout{Steps: steps(100), ParentsPerSecond: 100})
	rollOut := func(version, previous string) {
		t.Helper()
		m.version = version
		if s := m.until(t, api.RolloutComplete, 0); s.To != version || s.Previous != previous {
			t.Errorf("%s: %+v", version, s)
		}
	}
	m.version = "v2"
	m.tick()
	rollOut("v2", "v1")
	m.version, m.failed = "bad", 60
	if s := m.until(t, api.RolloutRolledBack, 0); s.From != "v2" || s.Previous != "v1" || !slices.Contains(Used(s), "v1") {
		t.Errorf("taken back: %+v", s)
	}
	m.version, m.failed = "v3", 0
	if s := m.tick(); s.From != "v2" || s.Previous != "v1" {
		t.Errorf("in the middle: %+v", s)
	}
	rollOut("v3", "v2")
}

func TestNextWhenTheSpecIsEdited(t *testing.T) {
	m := newModel(60, api.Rollout{Steps: steps(5, 50, 100), ParentsPerSecond: 100})
	m.version = "v2"
	m.until(t, api.RolloutStepping, 50)
	m.tick()

	m.spec.Steps = steps(10, 20, 80, 100)
	if s := m.tick(); s.Percent != 50 || s.Step != 2 || s.Moved != 30 {
		t.Errorf("other steps: %+v", s)
	}
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
