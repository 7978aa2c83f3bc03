package composite

import (
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

const (
	// deletionWindow is how long a deletion counts, and how long an edit of a parent explains
	// deletions of its children.
	deletionWindow = 10 * time.Minute
	// deletionDelay is how long a deletion waits for deletions of other parents, which together may
	// exceed the limit.
	deletionDelay = 2 * time.Second
	// restartGrace is how long it takes after a restart until held deletions are known again.
	restartGrace = 10 * time.Second
)

// DeletionGuard is the deletion guard of one controller. It counts the pending and recent deletions
// of its programs that only a hook response explains.
type DeletionGuard struct {
	limit *plan.DeletionLimit
	now   func() time.Time
	// childCount counts the children of all parents of the controller, or of those that have moved in a rollout.
	childCount func(moved bool) int

	mu          sync.Mutex
	controllers []*Controller
	// pending are the deletions not made yet, by parent. pendingSum is the sum of their UIDs.
	pending    map[guardedParent]*pendingDeletions
	pendingSum uint64
	// recent are the deletions within the window, by child; confirmed ones are always allowed.
	recent, confirmed map[uint64]deletion
	// all counts the deletions of all parents, moved those of the parents that have moved in a rollout of
	// logic: a new version that deletes too much has to be noticed at its first step, among few children.
	all, moved deletionTally
	// expiredAt is when entries older than the window were last dropped.
	expiredAt time.Time
	// heldUntil is until when deletions count as held because they were held before a restart.
	heldUntil time.Time
	// confirmedValue is the value a user confirmed.
	confirmedValue string
}

// deletion is one that was made or confirmed.
type deletion struct {
	at    time.Time
	moved bool
}

// deletionTally compares the deletions of some parents with their children.
type deletionTally struct {
	pending, recent int
	// children is how many children there were at countedAt, when the first deletion became pending.
	children  int
	countedAt time.Time
	holding   bool
}

// guardedParent is a parent of one of the programs.
type guardedParent struct {
	controller *Controller
	key        queue.Key
}

// pendingDeletions are the deletions of one parent's response.
type pendingDeletions struct {
	since time.Time
	// moved means that the parent has moved in a rollout.
	moved bool
	uids  []uint64
	sum   uint64
	refs  []object.Ref
}

// NewDeletionGuard returns the guard of a controller. A nil limit holds nothing, and a nil now
// means time.Now.
func NewDeletionGuard(limit *plan.DeletionLimit, now func() time.Time) *DeletionGuard {
	if now == nil {
		now = time.Now
	}
	d := &DeletionGuard{
		limit: limit, now: now,
		pending: map[guardedParent]*pendingDeletions{}, recent: map[uint64]deletion{}, confirmed: map[uint64]deletion{},
	}
	d.childCount = d.countChildren
	return d
}

// RestoreHeld tells the guard that it held deletions when the process stopped.
func (d *DeletionGuard) RestoreHeld() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heldUntil = d.now().Add(deletionWindow)
}

// addController adds a program whose children count.
func (d *DeletionGuard) addController(program *Controller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.controllers = append(d.controllers, program)
}

// guardDecision is the decision about the deletions of one parent's response.
type guardDecision struct {
	// held means that a user has to confirm them with value.
	held  bool
	value string
	// wait is how long they wait for deletions of other parents; 0 if they are allowed.
	wait time.Duration
}

// decide decides about the deletions of a parent's response, which replace those of its former
// response. confirms is the value in the parent's annotation.
func (d *DeletionGuard) decide(of guardedParent, moved bool, deletions []plan.Action, confirms string) guardDecision {
	if d.limit == nil {
		return guardDecision{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.expire(now)
	since := now
	if before := d.pending[of]; before != nil {
		since = before.since
	}
	want := d.unconfirmed(deletions, pendingDeletions{since: since, moved: moved})
	if want != nil && confirms == confirmationValue(want.sum) {
		d.confirm(want, now)
		want = nil
	}
	d.setPending(of, want, now)
	if d.confirmedValue != "" && d.confirmedValue == confirmationValue(d.pendingSum) {
		d.confirmAll(now)
		return guardDecision{}
	}
	if want == nil {
		return guardDecision{}
	}
	return d.decidePending(of, want, now)
}

// decidePending decides about pending deletions.
func (d *DeletionGuard) decidePending(of guardedParent, want *pendingDeletions, now time.Time) guardDecision {
	if d.holding() {
		return guardDecision{held: true, value: confirmationValue(want.sum)}
	}
	if left := deletionDelay - now.Sub(want.since); left > 0 && d.all.children > d.limit.MaxDeletions {
		return guardDecision{wait: left}
	}
	for _, uid := range want.uids {
		if _, again := d.recent[uid]; !again {
			d.countRecent(want.moved, 1)
		}
		d.recent[uid] = deletion{now, want.moved}
	}
	d.setPending(of, nil, now)
	return guardDecision{}
}

// unconfirmed returns the deletions that no user has confirmed; nil if there are none.
func (d *DeletionGuard) unconfirmed(deletions []plan.Action, none pendingDeletions) *pendingDeletions {
	want := &none
	for _, a := range deletions {
		uid := stableDigest(a.Before.UID())
		if _, may := d.confirmed[uid]; may {
			continue
		}
		want.uids = append(want.uids, uid)
		want.sum += uid
		want.refs = append(want.refs, a.Ref)
	}
	if len(want.uids) == 0 {
		return nil
	}
	return want
}

// setPending replaces the pending deletions of a parent and updates whether the guard holds.
func (d *DeletionGuard) setPending(of guardedParent, want *pendingDeletions, now time.Time) {
	if want != nil {
		d.countAll(want.moved, now)
	}
	if before := d.pending[of]; before != nil {
		d.pendingSum -= before.sum
		d.countPending(before.moved, -len(before.uids))
		delete(d.pending, of)
	}
	if want != nil {
		d.pending[of] = want
		d.pendingSum += want.sum
		d.countPending(want.moved, len(want.uids))
	}
	d.updateHolding(now)
}

// countAll counts the children before the first deletion.
func (d *DeletionGuard) countAll(moved bool, now time.Time) {
	for _, t := range d.tallies(moved) {
		if t.pending == 0 || now.Sub(t.countedAt) > deletionWindow && !t.holding {
			t.children, t.countedAt = d.childCount(t == &d.moved)+t.recent, now
		}
	}
}

// tallies returns those in which the deletions of a parent count.
func (d *DeletionGuard) tallies(moved bool) []*deletionTally {
	if moved {
		return []*deletionTally{&d.all, &d.moved}
	}
	return []*deletionTally{&d.all}
}

func (d *DeletionGuard) countPending(moved bool, n int) {
	for _, t := range d.tallies(moved) {
		t.pending += n
	}
}

func (d *DeletionGuard) countRecent(moved bool, n int) {
	for _, t := range d.tallies(moved) {
		t.recent += n
	}
}

func (d *DeletionGuard) holding() bool { return d.all.holding || d.moved.holding }

// updateHolding compares the deletions with the limit. It retries the parents if the guard no
// longer holds their deletions.
func (d *DeletionGuard) updateHolding(now time.Time) {
	held := d.holding()
	for _, t := range d.tallies(true) {
		t.holding = d.limit.Exceeded(plan.DeletionCount{
			Pending: t.pending, Recent: t.recent, Children: t.children, Holding: t.holding || now.Before(d.heldUntil),
		})
	}
	if held && !d.holding() {
		d.heldUntil = time.Time{}
		d.retry()
	}
}

func (d *DeletionGuard) countChildren(moved bool) int {
	n := 0
	for _, program := range d.controllers {
		n += program.countChildren(moved)
	}
	return n
}

// confirm allows deletions.
func (d *DeletionGuard) confirm(want *pendingDeletions, now time.Time) {
	for _, uid := range want.uids {
		d.confirmed[uid] = deletion{at: now}
	}
}

func (d *DeletionGuard) confirmAll(now time.Time) {
	for _, want := range d.pending {
		d.confirm(want, now)
	}
	clear(d.pending)
	d.pendingSum, d.heldUntil = 0, time.Time{}
	for _, t := range d.tallies(true) {
		t.pending, t.holding = 0, false
	}
	d.retry()
}

// retry retries the parents that failed because their deletions were held.
func (d *DeletionGuard) retry() {
	for _, program := range d.controllers {
		program.RetryNow()
	}
}

// Allow sets the value by which a user confirms deletions. It confirms nothing unless the held
// deletions have that value now or later.
func (d *DeletionGuard) Allow(value string) {
	if d.limit == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.confirmedValue = strings.Clone(value)
	if d.all.pending > 0 && value == confirmationValue(d.pendingSum) {
		d.confirmAll(d.now())
	}
}

// WouldHold reports whether it would hold a number of further deletions.
func (d *DeletionGuard) WouldHold(deletions int) bool {
	if d.limit == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limit.Exceeded(plan.DeletionCount{Pending: deletions, Recent: d.all.recent, Children: d.childCount(false)})
}

// drop removes the pending deletions of a parent.
func (d *DeletionGuard) drop(of guardedParent) {
	if d.limit == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending[of] != nil {
		d.setPending(of, nil, d.now())
	}
}

// expire drops entries older than the window.
func (d *DeletionGuard) expire(now time.Time) {
	if now.Sub(d.expiredAt) < time.Second {
		return
	}
	d.expiredAt = now
	maps.DeleteFunc(d.confirmed, func(_ uint64, done deletion) bool { return now.Sub(done.at) >= deletionWindow })
	for uid, done := range d.recent {
		if now.Sub(done.at) >= deletionWindow {
			d.countRecent(done.moved, -1)
			delete(d.recent, uid)
		}
	}
}

func (d *DeletionGuard) heldByController(program *Controller) controller.HeldDeletions {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.holding() {
		return controller.HeldDeletions{}
	}
	held := controller.HeldDeletions{Value: confirmationValue(d.pendingSum)}
	for of, want := range d.pending {
		if of.controller == program {
			held.Parents++
			held.Count += len(want.uids)
		}
	}
	return held
}

// heldUnknown reports whether deletions were held just before a restart and are not known again
// yet.
func (d *DeletionGuard) heldUnknown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.holding() && d.now().Before(d.heldUntil.Add(restartGrace-deletionWindow))
}

// heldChildren returns the children of a parent whose deletions are held, and the value that
// confirms them.
func (d *DeletionGuard) heldChildren(of guardedParent) (children []object.Ref, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := d.pending[of]
	if want == nil || !d.holding() {
		return nil, ""
	}
	return want.refs, confirmationValue(want.sum)
}

// filterHeld returns those of the deletions that are held.
func (d *DeletionGuard) filterHeld(of guardedParent, deletions []plan.Action) []plan.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := d.pending[of]
	if want == nil || !d.holding() {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(deletions), func(a plan.Action) bool {
		return !slices.Contains(want.uids, stableDigest(a.Before.UID()))
	})
}

// confirmationValue formats a sum of UIDs for users to copy.
func confirmationValue(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// confirmationValueFor returns the value that confirms the deletions of one parent.
func confirmationValueFor(deletions []plan.Action) string {
	var sum uint64
	for _, a := range deletions {
		sum += stableDigest(a.Before.UID())
	}
	return confirmationValue(sum)
}

// stableDigest returns a digest that is the same in every process.
func stableDigest(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // Write never returns an error.
	return h.Sum64()
}

// guardDeletions removes from a plan the deletions that the guard holds or delays.
func (r *run) guardDeletions(todo plan.Plan) plan.Plan {
	r.guardDecision, r.withheld = guardDecision{}, nil
	if r.Phase != controller.PhaseManaged {
		r.deletionGuard.drop(r.guardedParent())
		return todo
	}
	removed := r.unexplainedDeletions(todo)
	if r.dry != nil {
		r.dry.removals = removed // Whether they are too many depends on other parents.
		return todo
	}
	confirms := plan.Annotation(r.Stored, setpoint.AnnotationAllowDeletions)
	now := r.deletionGuard.decide(r.guardedParent(), r.isMoved(r.Stored), removed, confirms)
	if !now.held && now.wait == 0 {
		return todo
	}
	r.guardDecision, r.withheld = now, removed
	return todo.Without(removed)
}

func (r *run) guardedParent() guardedParent { return guardedParent{r.Controller, r.Item.Key} }

// unexplainedDeletions returns the deletions that only the hook response explains, not an edit of
// the parent's spec. An edit does not explain deletions that were held before it.
func (r *run) unexplainedDeletions(todo plan.Plan) []plan.Action {
	removals := todo.Removals()
	if r.noteSpecChange() {
		return r.deletionGuard.filterHeld(r.guardedParent(), removals)
	}
	return removals
}

// noteSpecChange reports whether the parent's spec changed recently or since the last successful
// run. An unknown former spec counts as unchanged.
func (r *run) noteSpecChange() bool {
	m, spec, now := r.memory, specDigest(r.Stored), r.tools.Now()
	if m.failures.version != r.logic.Version {
		m.editedAt, m.editPending = time.Time{}, false // The edit explains what the version before wanted.
	}
	if m.specDigest != spec {
		if m.specDigest != 0 || r.editedSinceStatus() {
			m.editedAt, m.editPending = now, true
		}
		m.specDigest = spec
	}
	return m.editPending || !m.editedAt.IsZero() && now.Sub(m.editedAt) < deletionWindow
}

// editedSinceStatus reports whether the parent was edited after this controller stored its status.
// Only the status of custom resources of composites belongs to the controller.
func (r *run) editedSinceStatus() bool {
	if r.program.isDecorator() || !r.program.Parent.Custom || !r.program.Parent.Status {
		return false
	}
	observed, err := strconv.ParseInt(string(r.Stored.Field("status", "observedGeneration")), 10, 64)
	return err == nil && observed > 0 && observed < r.Stored.Generation()
}

// specDigest returns the generation, or a digest of all fields but metadata and status for kinds
// without one.
func specDigest(o *object.Object) uint64 {
	if o.Generation() > 0 {
		return uint64(o.Generation())
	}
	var fields map[string]json.RawMessage
	if json.Unmarshal(o.JSON(), &fields) != nil {
		return o.IntentDigest() // The cache contains only JSON objects.
	}
	delete(fields, "metadata")
	delete(fields, "status")
	var spec []byte
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		spec = append(append(spec, name...), fields[name]...)
	}
	return max(object.DigestOf(spec), 1)
}

// recordedPlan returns the plan for the record, with the withheld deletions.
func (r *run) recordedPlan(rest, whole plan.Plan) plan.Plan {
	if len(r.withheld) == 0 {
		return rest
	}
	why := "; held by the deletion guard"
	if !r.guardDecision.held {
		why = "; delayed by the deletion guard"
	}
	held := make([]plan.Action, len(r.withheld))
	for i, a := range r.withheld {
		a.Reason += why
		held[i] = a
	}
	return plan.Plan{Stages: append([][]plan.Action{held}, rest.Stages...), Equal: whole.Equal}
}

// deletionsPendingError ends a run whose deletions delayed by the deletion guard.
type deletionsPendingError struct{ delay time.Duration }

func (e *deletionsPendingError) Error() string { return "deletions delayed by the deletion guard" }

// withheldError returns the error of a run whose deletions are withheld; nil if there are none.
func (r *run) withheldError() error {
	if len(r.withheld) == 0 {
		return nil
	}
	r.memory.syncedInput = 0
	if !r.guardDecision.held {
		return &deletionsPendingError{r.guardDecision.wait}
	}
	return failure.WithReason(ReasonDeletionsHeld, r.deletionsHeldError())
}

// maxListed is how many children an error names.
const maxListed = 3

func (r *run) deletionsHeldError() error {
	var names []string
	for _, a := range r.withheld[:min(len(r.withheld), maxListed)] {
		names = append(names, a.Ref.String())
	}
	list := strings.Join(names, ", ")
	if more := len(r.withheld) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	what := "deletions"
	if len(r.withheld) == 1 {
		what = "deletion"
	}
	return errors.New(strconv.Itoa(len(r.withheld)) + " " + what + " held by the deletion guard: the hook response leaves out " + list +
		"; fix the hook, or confirm with the annotation " + setpoint.AnnotationAllowDeletions + "=" + r.guardDecision.value)
}

// CountAllChildren counts the cached children of all parents.
func (c *Controller) CountAllChildren() int { return c.countChildren(false) }

// countChildren counts the cached children of all parents, or of those that have moved in a rollout.
func (c *Controller) countChildren(moved bool) int {
	n := 0
	for parent := range c.parents.All() {
		if c.PhaseOf(parent) == controller.PhaseIgnored || moved && !c.isMoved(parent) {
			continue
		}
		n += c.countOwned(parent)
	}
	return n
}

// isMoved reports whether a parent has moved to the new version in a rollout of the logic.
func (c *Controller) isMoved(parent *object.Object) bool {
	return c.program.Former != nil && c.tools.Versions.hasMoved(parent)
}
