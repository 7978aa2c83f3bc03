package router

import (
	"strings"
	"sync"
	"sync/atomic"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// When is the condition of a rollback.
type When func(parent *object.Object, children []*object.Object) (bool, error)

// Assignment says which parents of one controller have moved to a new version of its hooks, and how these parents
// are doing. The programs of the controller share it.
type Assignment struct {
	position atomic.Int64

	mu      sync.Mutex
	when    When
	parents map[controller.ObjectID]movedParent
	shadow  shadow
}

// movedParent is what runs of the new version have shown of a parent; only before is set as long as it has not moved.
type movedParent struct {
	uid string
	// settled means that a run of the new version has succeeded, or that no version can reconcile the parent.
	settled bool
	failures
	// before are the failures of the version before, until the new one succeeds.
	before  failures
	failure string
	held    bool
	// matching is whether the condition of a rollback is true, and blocked its error.
	matching bool
	blocked  string
}

// NewAssignment returns an Assignment of which no parent has moved.
func NewAssignment() *Assignment {
	return &Assignment{parents: map[controller.ObjectID]movedParent{}}
}

func (a *Assignment) hasMoved(parent *object.Object) bool {
	return rollout.Moved(parent.UID(), a.position.Load())
}

// SetWhen replaces the condition of a rollback, which the next run of each parent evaluates; nil for none.
func (a *Assignment) SetWhen(when When) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.when = when
}

// Position returns up to where parents have moved.
func (a *Assignment) Position() int64 { return a.position.Load() }

// SetPosition moves parents up to a position, or back. It returns the position before.
func (a *Assignment) SetPosition(position int64) (before int64) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if before = a.position.Swap(position); position < before {
		for of, p := range a.parents {
			a.parents[of] = movedParent{uid: p.uid, before: p.before}
		}
	}
	return before
}

func (a *Assignment) drop(of controller.ObjectID) {
	a.mu.Lock()
	defer a.mu.Unlock()
	delete(a.parents, of)
	a.shadow.drop(of)
}

// note notes how a run ended, by the new version or by the one before.
func (a *Assignment) note(of parent, run *Run, end *End, byNew bool) {
	var matching, evaluated bool
	var blocked string
	if byNew {
		matching, blocked, evaluated = a.evaluateWhen(run, end.Outcome)
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	p := a.parents[of.ObjectID]
	if p.uid != of.uid {
		p = movedParent{uid: strings.Clone(of.uid)}
	}
	switch {
	case !byNew:
		p.before.add(end)
	case !a.hasMoved(run.Stored):
		return // It was taken back meanwhile.
	default:
		if evaluated {
			p.matching, p.blocked = matching, blocked
		}
		p.add(end)
	}
	a.parents[of.ObjectID] = p
}

func (m *movedParent) add(end *End) {
	m.held = end.Blame == DeletionGuard
	m.failures.add(end)
	switch {
	case end.Outcome == record.Synced || end.Outcome == record.Skipped:
		m.settled, m.before, m.failure = true, failures{}, ""
	case end.Outcome != record.Failed:
	case end.Blame == Parent:
		m.settled = m.settled || m.failures == (failures{})
	case end.Blame == Version || end.Blame == VersionForGood:
		m.settled, m.failure = false, failure.OneLine(end.Err)
	case !m.persist():
		m.failure = failure.OneLine(end.Err)
	}
}

// evaluateWhen evaluates the condition of a rollback for the parent and its children, if the run has observed
// them.
func (a *Assignment) evaluateWhen(run *Run, outcome record.Outcome) (matching bool, blocked string, evaluated bool) {
	a.mu.Lock()
	when := a.when
	a.mu.Unlock()
	if when == nil {
		return false, "", true
	}
	children, observed := run.Children()
	if run.Phase != controller.PhaseManaged || outcome == record.Postponed || !observed {
		return false, "", false
	}
	matching, err := when(run.Stored, children)
	if err != nil {
		return false, failure.OneLine(err), true
	}
	return matching, "", true
}

// observed returns what a rollout knows of a parent that has moved; zero of others.
func (a *Assignment) observed(of parent, o *object.Object) rollout.Observed {
	a.mu.Lock()
	defer a.mu.Unlock()
	m := a.parents[of.ObjectID]
	if m.uid != of.uid || !a.hasMoved(o) {
		return rollout.Observed{}
	}
	return m.report(o.Ref().String())
}

func (m *movedParent) report(name string) rollout.Observed {
	var o rollout.Observed
	switch {
	case m.persist() && !m.before.persist():
		o.Failed, o.Failure = 1, name+": "+m.failure
	case m.persist():
		o.Reconciled = 1
	case m.persistElsewhere() && !m.before.persistElsewhere():
		o.Blocked = name + ": " + m.failure
	case m.settled || m.persistElsewhere():
		o.Reconciled = 1
	}
	if m.held {
		o.Held = "the deletion guard holds deletions of children of " + name
	}
	if m.matching {
		o.Matching = "spec.rollout.rollback.when is true for " + name
	}
	if m.blocked != "" {
		o.Blocked = name + ": " + m.blocked
	}
	return o
}

// failures are those in a row that one version of the hooks has had with a parent.
type failures struct {
	attempts int
	terminal bool
	// elsewhere counts those that may be of another client or of the API server as well as of the version.
	elsewhere int
}

// persist reports whether retries do not help.
func (f failures) persist() bool { return f.attempts > maxFlakes || f.terminal }

// persistElsewhere reports whether retries do not help against those.
func (f failures) persistElsewhere() bool { return f.elsewhere > maxFlakes }

func (f *failures) add(end *End) {
	switch {
	case end.Outcome == record.Synced || end.Outcome == record.Skipped:
		*f = failures{}
	case end.Outcome != record.Failed:
	case end.Blame == Version || end.Blame == VersionForGood:
		f.attempts++
		f.terminal = end.Blame == VersionForGood
	case end.Blame == Elsewhere:
		f.elsewhere++
	}
}

// SetShadow starts or ends the comparison of the versions, for at most so many parents per second. It is called
// each second.
func (a *Assignment) SetShadow(on bool, perSecond int) {
	s := &a.shadow
	s.mu.Lock()
	defer s.mu.Unlock()
	if on && !s.on { // What an earlier shadow has shown does not count.
		s.parents = map[controller.ObjectID]shadowedParent{}
		for of := range s.comparing {
			s.comparing[of] = false
		}
	}
	if s.on = on; on {
		s.first, s.again = perSecond, perSecond
	}
}
