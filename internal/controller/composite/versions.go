package composite

import (
	"cmp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
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
	moved map[controller.ObjectID]movedParent

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
	return &Versions{when: when, moved: map[controller.ObjectID]movedParent{}}
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

func (v *Versions) drop(of controller.ObjectID) {
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
	m := v.moved[r.id()]
	if uid := r.Stored.UID(); m.uid != uid {
		m = movedParent{uid: strings.Clone(uid), before: before}
	}
	if evaluated {
		m.matching, m.blocked = matching, blocked
	}
	m.add(outcome, err)
	v.moved[r.id()] = m
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
		if m := v.moved[of.ObjectID]; m.uid == parent.UID() && v.hasMoved(parent) {
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

const (
	// maxVersionRequests is how often a parent is queued because of one version. A replica with an older one may
	// respond.
	maxVersionRequests = 3
	versionRetryDelay  = time.Minute
)

// LogicVersions follows the logicVersion of responses, so that parents are reconciled again after a hook was
// replaced behind its address. The programs of one controller share it.
type LogicVersions struct {
	mu sync.Mutex
	// responses are by the version of the hooks in the spec, which two hooks may have in a rollout.
	responses map[string]*rollout.Responses
	parents   map[controller.ObjectID]respondedVersion
}

// respondedVersion is the version in the latest response about a parent.
type respondedVersion struct {
	uid, logic, version string
	// requests is how often it was queued because of the version requestedFor, requestedAt when it last was.
	requests     int
	requestedFor string
	requestedAt  time.Time
}

// NewLogicVersions returns LogicVersions without any response. Restored is the version that counted for the hooks of
// a version in the spec.
func NewLogicVersions(logic, restored string) *LogicVersions {
	v := &LogicVersions{responses: map[string]*rollout.Responses{}, parents: map[controller.ObjectID]respondedVersion{}}
	if restored != "" {
		v.of(logic).Restore(restored)
	}
	return v
}

func (v *LogicVersions) of(logic string) *rollout.Responses {
	r := v.responses[logic]
	if r == nil {
		r = &rollout.Responses{}
		v.responses[logic] = r
	}
	return r
}

// note notes the version in a response about a parent.
func (v *LogicVersions) note(of shadowed, logic, version string, now time.Time) {
	v.mu.Lock()
	defer v.mu.Unlock()
	if version == "" {
		v.of(logic).Add(version, now)
		delete(v.parents, of.ObjectID)
		return
	}
	p := v.parents[of.ObjectID]
	if p.uid != of.uid {
		p = respondedVersion{uid: strings.Clone(of.uid)}
	}
	p.logic, p.version = logic, v.of(logic).Add(version, now)
	v.parents[of.ObjectID] = p
}

func (v *LogicVersions) drop(of controller.ObjectID) {
	v.mu.Lock()
	defer v.mu.Unlock()
	delete(v.parents, of)
}

// versionOf returns the version in the latest response about a parent; empty if unknown.
func (v *LogicVersions) versionOf(of shadowed) string {
	v.mu.Lock()
	defer v.mu.Unlock()
	if p := v.parents[of.ObjectID]; p.uid == of.uid {
		return p.version
	}
	return ""
}

// LogicVersionState is what is known of the versions in responses.
type LogicVersionState struct {
	// Known means that there was a response, or a version from before a restart.
	Known bool
	// Current is the version that counts, and Before the one before it if that has just changed.
	Current, Before string
	// Problem is why versions cannot be followed.
	Problem string
}

// Settle makes the version of all responses for a while the one that counts, of the hooks of a version in the spec.
func (v *LogicVersions) Settle(logic string, now time.Time) (state LogicVersionState) {
	v.mu.Lock()
	defer v.mu.Unlock()
	for name, r := range v.responses {
		before, changed := r.Settle(now)
		if problem := r.Problem(now); problem != "" {
			state.Problem = problem
		}
		if name == logic && changed {
			state.Before = before
		}
	}
	if r := v.responses[logic]; r != nil && r.HasNone(now) && !v.responded(logic) {
		v.responses[logic] = &rollout.Responses{} // The hook has none any more.
	}
	if r := v.responses[logic]; r != nil {
		state.Known, state.Current = true, r.Current()
	}
	return state
}

// responded reports whether the latest response about a parent has a version, from the hooks of a version in the spec.
func (v *LogicVersions) responded(logic string) bool {
	for _, p := range v.parents {
		if p.logic == logic {
			return true
		}
	}
	return false
}

// older returns the version that a parent should be reconciled by, if its latest response has another one.
func (v *LogicVersions) older(of shadowed, now time.Time) (current string, is bool) {
	p := v.parents[of.ObjectID]
	if p.uid != of.uid {
		return "", false
	}
	r := v.of(p.logic)
	if current = r.Current(); p.version == current || !r.Settled(now) {
		return "", false
	}
	if p.requestedFor != current {
		p.requestedFor, p.requests, p.requestedAt = current, 0, time.Time{}
	}
	if p.requests >= maxVersionRequests || now.Sub(p.requestedAt) < versionRetryDelay {
		return "", false
	}
	p.requests, p.requestedAt = p.requests+1, now
	v.parents[of.ObjectID] = p
	return current, true
}

// QueueOlder queues parents that a hook of an older version reconciled last, at most so many. It returns how many more
// may be queued.
func (c *Controller) QueueOlder(limit int) (left int) {
	v := c.tools.LogicVersions
	v.mu.Lock()
	defer v.mu.Unlock()
	if len(v.parents) == 0 {
		return limit
	}
	for parent := range c.Managed() {
		if limit == 0 {
			break
		}
		if current, is := v.older(c.shadowed(parent), c.tools.Now()); is && c.PhaseOf(parent) == controller.PhaseManaged {
			limit--
			c.Queue.Add(controller.KeyOf(parent), queue.Cause{Kind: queue.LogicChanged, Detail: current})
		}
	}
	return limit
}

// noteVersion notes the version in the latest response, without values of Secrets. A known one has none.
func (r *run) noteVersion(parent *object.Object) {
	if r.Phase != controller.PhaseManaged {
		return
	}
	of, version := r.shadowed(parent), r.response.LogicVersion
	if version != r.tools.LogicVersions.versionOf(of) {
		version = r.Secrets.Text(version)
	}
	r.tools.LogicVersions.note(of, r.logic.Version, version, r.tools.Now())
}

// maxFlakes is how many failures in a row of a moved parent are no failure of the new version yet.
const maxFlakes = 2

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

func (f *failures) add(outcome record.Outcome, err error) {
	switch {
	case outcome == record.Synced || outcome == record.Skipped:
		*f = failures{}
	case outcome != record.Failed:
	case isFailureOfLogic(err):
		f.attempts++
		f.terminal = hook.IsTerminal(err)
	case isFailureElsewhere(err):
		f.elsewhere++
	}
}

// versionFailures are the failures of the version that reconciled a parent last.
type versionFailures struct {
	version string
	failures
}

func (f *versionFailures) add(version string, outcome record.Outcome, err error) {
	if f.version != version {
		*f = versionFailures{version: version}
	}
	f.failures.add(outcome, err)
}

// before returns the failures of another version.
func (f *versionFailures) before(version string) failures {
	if f.version == version {
		return failures{}
	}
	return f.failures
}

// isFailureOfLogic reports whether a failure is of the version of the hooks as far as can be known: not of the
// parent, of another client, or of the API server.
func isFailureOfLogic(err error) bool {
	switch controller.ReasonOf(err) {
	case ReasonInvalidParent, ReasonDeletionsHeld:
		return false
	}
	return !isFailureElsewhere(err)
}

// isFailureElsewhere reports whether a failure may be of another client or of the API server. A version may cause
// it, too: it writes a field that another controller owns, or a child that a webhook fails for.
func isFailureElsewhere(err error) bool {
	switch controller.ReasonOf(err) {
	case ReasonFlapping, ReasonRolloutFailed:
		return true
	case controller.ReasonWriteFailed:
		return apply.Unreachable(err)
	}
	return false
}
