package composite

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout"
)

// Logic is one version of the hooks of a program; its fields are those of Program.
type Logic struct {
	Version        string
	Sync, Finalize hook.Hook
	Customize      hook.Customizer
}

// Finalizes reports whether parents get the finalizer, in either version.
func (p *Program) Finalizes() bool {
	return p.Finalize != nil || p.Former != nil && p.Former.Finalize != nil
}

// Customizes reports whether requests have related objects, in either version.
func (p *Program) Customizes() bool {
	return p.Customize != nil || p.Former != nil && p.Former.Customize != nil
}

// logicOf returns the version that is called for a parent.
func (c *Controller) logicOf(parent *object.Object) Logic {
	if p := &c.program; p.Former == nil || c.tools.Versions.hasMoved(parent) {
		return Logic{Version: p.Version, Sync: p.Sync, Finalize: p.Finalize, Customize: p.Customize}
	}
	return *c.program.Former
}

// When is the condition of a rollback.
type When func(parent *object.Object, children []*object.Object) (bool, error)

// Versions says which parents of one controller have moved to a new version of its hooks, and how these parents
// are doing. The programs of the controller share it.
type Versions struct {
	position atomic.Int64

	mu    sync.Mutex
	when  When
	moved map[guardedParent]movedParent

	shadow shadow
}

// movedParent is what runs of the new version have shown of a parent.
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

// NewVersions returns Versions of which no parent has moved. A nil when never matches.
func NewVersions(when When) *Versions {
	return &Versions{when: when, moved: map[guardedParent]movedParent{}}
}

func (v *Versions) hasMoved(parent *object.Object) bool {
	return rollout.Moved(parent.UID(), v.position.Load())
}

// SetWhen replaces the condition of a rollback, which the next run of each parent evaluates.
func (v *Versions) SetWhen(when When) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.when = when
}

// Position returns up to where parents have moved.
func (v *Versions) Position() int64 { return v.position.Load() }

// SetPosition moves parents up to a position, or back. It returns the position before.
func (v *Versions) SetPosition(position int64) (before int64) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if before = v.position.Swap(position); position < before {
		clear(v.moved)
	}
	return before
}

func (v *Versions) drop(of guardedParent) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.moved, of)
	v.shadow.drop(of)
}

// noteMoved notes how a run of the new version ended, for the rollout.
func (r *run) noteMoved(outcome record.Outcome, err error, before failures) {
	v := r.tools.Versions
	if r.program.Former == nil || r.logic.Version != r.program.Version {
		return
	}
	matching, blocked, evaluated := r.evaluateWhen(outcome)
	v.mu.Lock()
	defer v.mu.Unlock()
	if !v.hasMoved(r.Stored) {
		return // It was taken back meanwhile.
	}
	m := v.moved[r.guardedParent()]
	if uid := r.Stored.UID(); m.uid != uid {
		m = movedParent{uid: strings.Clone(uid), before: before}
	}
	if evaluated {
		m.matching, m.blocked = matching, blocked
	}
	m.add(outcome, err)
	v.moved[r.guardedParent()] = m
}

// add adds the end of one more run.
func (m *movedParent) add(outcome record.Outcome, err error) {
	m.held = controller.ReasonOf(err) == ReasonDeletionsHeld
	m.failures.add(outcome, err)
	switch {
	case outcome == record.Synced || outcome == record.Skipped:
		m.settled, m.before, m.failure = true, failures{}, ""
	case outcome != record.Failed:
	case controller.ReasonOf(err) == ReasonInvalidParent:
		m.settled = m.settled || m.failures == (failures{})
	case isFailureOfLogic(err):
		m.settled, m.failure = false, failure.OneLine(err)
	case !m.persist():
		m.failure = failure.OneLine(err)
	}
}

// evaluateWhen evaluates the condition of a rollback for the parent and its children, if the run has observed
// them.
func (r *run) evaluateWhen(outcome record.Outcome) (matching bool, blocked string, evaluated bool) {
	r.tools.Versions.mu.Lock()
	when := r.tools.Versions.when
	r.tools.Versions.mu.Unlock()
	switch {
	case when == nil:
		return false, "", true
	case r.Phase != controller.PhaseManaged || outcome == record.Postponed || len(r.children) != len(r.program.Children):
		return false, "", false
	}
	matching, err := when(r.Stored, r.observed())
	if err != nil {
		return false, failure.OneLine(err), true
	}
	return matching, "", true
}

// Rollout returns what a rollout knows of the parents of the program.
func (c *Controller) Rollout() rollout.Observed {
	if !c.Running() {
		return rollout.Observed{Unknown: true} // The caches may not have synced.
	}
	var o rollout.Observed
	v := c.tools.Versions
	v.mu.Lock()
	defer v.mu.Unlock()
	for parent := range c.Managed() {
		if c.PhaseOf(parent) != controller.PhaseManaged {
			continue // Nothing may reconcile it while it is paused.
		}
		o.Hashes = append(o.Hashes, rollout.Hash(parent.UID()))
		of := c.shadowed(parent)
		if m := v.moved[of.guardedParent]; m.uid == parent.UID() && v.hasMoved(parent) {
			o.Add(m.observed(parent.Ref().String()))
		}
		v.shadow.observe(of, parent, &o)
	}
	return o
}

// observed returns what a rollout knows of one moved parent.
func (m *movedParent) observed(name string) rollout.Observed {
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

// QueueMoved queues the parents between two positions, in the order in which they move. With a rate per second
// they follow one after the other.
func (c *Controller) QueueMoved(from, to int64, rate int) {
	low, high := min(from, to), max(from, to)
	var moved []*object.Object
	for parent := range c.Managed() {
		if rollout.Moved(parent.UID(), high) && !rollout.Moved(parent.UID(), low) {
			moved = append(moved, parent)
		}
	}
	slices.SortFunc(moved, func(a, b *object.Object) int {
		return cmp.Or(cmp.Compare(rollout.Hash(a.UID()), rollout.Hash(b.UID())), strings.Compare(a.UID(), b.UID()))
	})
	for i, parent := range moved {
		cause := queue.Cause{Kind: queue.LogicChanged, Detail: c.logicOf(parent).Version}
		c.Queue.AddAfter(controller.KeyOf(parent), cause, delayAt(i, rate))
	}
}

// delayAt spreads parents over time, so many per second; 0 for no limit.
func delayAt(i, rate int) time.Duration {
	if rate == 0 {
		return 0
	}
	return time.Duration(i) * time.Second / time.Duration(rate)
}
