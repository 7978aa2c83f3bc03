// Package guard is the deletion guard. It decides which deletions of children are made, which wait, and which a user
// has to confirm, because a defect of a hook may be the only reason for them.
//
// It counts and compares. Package composite asks it before each write.
package guard

import (
	"encoding/json"
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
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

const (
	// window is how long a deletion counts, and how long an edit of a parent explains deletions of its children.
	window = 10 * time.Minute
	// delay is how long a deletion waits for deletions of other parents, which together may exceed the limit.
	delay = 2 * time.Second
	// restartGrace is how long it takes after a restart until held deletions are known again.
	restartGrace = 10 * time.Second
)

// Guard is the deletion guard of a controller. It counts pending and recent deletions that only a response explains.
type Guard struct {
	limit *plan.DeletionLimit
	now   func() time.Time

	mu      sync.Mutex
	members []member
	// pending are the deletions not made yet, by parent. pendingSum is the sum of their UIDs.
	pending    map[controller.ObjectID]*pendingOf
	pendingSum uint64
	// recent are the deletions within the window, by child; confirmed ones are always allowed.
	recent, confirmed map[uint64]deletion
	// all counts the deletions of all parents, moved those of the parents that have moved in a rollout of
	// logic: a new version that deletes too much has to be noticed at its first step, among few children.
	all, moved tally
	// expiredAt is when entries older than the window were last dropped.
	expiredAt time.Time
	// heldUntil is until when deletions count as held because they were held before a restart.
	heldUntil time.Time
	// confirmedValue is the value a user confirmed.
	confirmedValue string
}

// member is one of the controllers that share a guard.
type member struct {
	base *controller.Base
	// children counts the children of its parents, or of those that have moved.
	children func(moved bool) int
}

// deletion is one that was made or confirmed.
type deletion struct {
	at    time.Time
	moved bool
}

// tally compares the deletions of some parents with their children.
type tally struct {
	// Children were counted at countedAt, when the first deletion became pending.
	plan.DeletionCount
	countedAt time.Time
}

// pendingOf are the deletions of one parent's response.
type pendingOf struct {
	since time.Time
	// moved means that the parent has moved in a rollout.
	moved bool
	uids  []uint64
	sum   uint64
	refs  []object.Ref
}

// New returns the guard of a controller. A nil limit holds nothing, and a nil now means time.Now.
func New(limit *plan.DeletionLimit, now func() time.Time) *Guard {
	if now == nil {
		now = time.Now
	}
	return &Guard{
		limit: limit, now: now,
		pending: map[controller.ObjectID]*pendingOf{}, recent: map[uint64]deletion{}, confirmed: map[uint64]deletion{},
	}
}

// RestoreHeld tells the guard that it held deletions when the process stopped.
func (d *Guard) RestoreHeld() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heldUntil = d.now().Add(window)
}

// Add adds a controller and what counts the children of its parents, or of those that have moved in a rollout.
func (d *Guard) Add(base *controller.Base, children func(moved bool) int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.members = append(d.members, member{base, children})
}

// Decision is the decision about the deletions of one parent's response; zero if they are made.
type Decision struct {
	// Held means that a user has to confirm them with Value.
	Held  bool
	Value string
	// Wait is how long they wait for deletions of other parents.
	Wait time.Duration
	// Withheld are the deletions if they are not made now.
	Withheld []plan.Action
}

// Decide decides about the deletions of a parent's latest response. confirms is the value in the parent's annotation.
func (d *Guard) Decide(of controller.ObjectID, moved bool, deletions []plan.Action, confirms string) Decision {
	if d.limit == nil {
		return Decision{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.expire(now)
	want := d.unconfirmed(of, pendingOf{since: now, moved: moved}, deletions)
	if want != nil && confirms == confirmationValue(want.sum) {
		d.confirm(want, now)
		want = nil
	}
	d.setPending(of, want, now)
	switch {
	case d.confirmedValue != "" && d.confirmedValue == confirmationValue(d.pendingSum):
		d.confirmAll(now)
		return Decision{}
	case want == nil:
		return Decision{}
	case d.holding():
		return Decision{Held: true, Value: confirmationValue(want.sum), Withheld: deletions}
	}
	if left := delay - now.Sub(want.since); left > 0 && d.all.Children > d.limit.MaxDeletions {
		return Decision{Wait: left, Withheld: deletions}
	}
	for _, uid := range want.uids {
		if _, again := d.recent[uid]; !again {
			d.count(moved, 0, 1)
		}
		d.recent[uid] = deletion{now, moved}
	}
	d.setPending(of, nil, now)
	return Decision{}
}

// unconfirmed returns the deletions of a parent that no user has confirmed; nil if there are none.
func (d *Guard) unconfirmed(of controller.ObjectID, want pendingOf, deletions []plan.Action) *pendingOf {
	for _, a := range deletions {
		uid := stableDigest(a.Before.UID())
		if _, may := d.confirmed[uid]; !may {
			want.uids, want.refs = append(want.uids, uid), append(want.refs, a.Ref)
			want.sum += uid
		}
	}
	if len(want.uids) == 0 {
		return nil
	}
	if before := d.pending[of]; before != nil {
		want.since = before.since
	}
	return &want
}

// setPending replaces the pending deletions of a parent and updates whether the guard holds.
func (d *Guard) setPending(of controller.ObjectID, want *pendingOf, now time.Time) {
	if want != nil { // Count the children before the first deletion.
		for _, t := range d.tallies(want.moved) {
			if t.Pending == 0 || now.Sub(t.countedAt) > window && !t.Holding {
				t.Children, t.countedAt = d.countChildren(t == &d.moved)+t.Recent, now
			}
		}
	}
	if before := d.pending[of]; before != nil {
		d.pendingSum -= before.sum
		d.count(before.moved, -len(before.uids), 0)
		delete(d.pending, of)
	}
	if want != nil {
		d.pending[of] = want
		d.pendingSum += want.sum
		d.count(want.moved, len(want.uids), 0)
	}
	d.updateHolding(now)
}

// tallies returns those in which the deletions of a parent count.
func (d *Guard) tallies(moved bool) []*tally {
	if moved {
		return []*tally{&d.all, &d.moved}
	}
	return []*tally{&d.all}
}

// count adds to the deletions that are pending, or were made recently.
func (d *Guard) count(moved bool, pending, recent int) {
	for _, t := range d.tallies(moved) {
		t.Pending, t.Recent = t.Pending+pending, t.Recent+recent
	}
}

func (d *Guard) holding() bool { return d.all.Holding || d.moved.Holding }

// updateHolding compares the deletions with the limit. It retries the parents if the guard no longer holds theirs.
func (d *Guard) updateHolding(now time.Time) {
	held := d.holding()
	for _, t := range d.tallies(true) {
		t.Holding = t.Holding || now.Before(d.heldUntil)
		t.Holding = d.limit.Exceeded(t.DeletionCount)
	}
	if held && !d.holding() {
		d.heldUntil = time.Time{}
		d.retry()
	}
}

func (d *Guard) countChildren(moved bool) int {
	n := 0
	for _, m := range d.members {
		n += m.children(moved)
	}
	return n
}

func (d *Guard) confirm(want *pendingOf, now time.Time) {
	for _, uid := range want.uids {
		d.confirmed[uid] = deletion{at: now}
	}
}

func (d *Guard) confirmAll(now time.Time) {
	for _, want := range d.pending {
		d.confirm(want, now)
	}
	clear(d.pending)
	d.pendingSum, d.heldUntil = 0, time.Time{}
	for _, t := range d.tallies(true) {
		t.Pending, t.Holding = 0, false
	}
	d.retry()
}

// retry retries the parents that failed because their deletions were held.
func (d *Guard) retry() {
	for _, m := range d.members {
		m.base.Queue.RetryNow()
	}
}

// Allow sets the value by which a user confirms deletions. It counts once the held deletions have that value.
func (d *Guard) Allow(value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.confirmedValue = strings.Clone(value)
	if d.all.Pending > 0 && value == confirmationValue(d.pendingSum) {
		d.confirmAll(d.now())
	}
}

// WouldHold reports whether it would hold a number of further deletions.
func (d *Guard) WouldHold(deletions int) bool {
	if d.limit == nil {
		return false
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.limit.Exceeded(plan.DeletionCount{Pending: deletions, Recent: d.all.Recent, Children: d.countChildren(false)})
}

// Drop removes the pending deletions of a parent.
func (d *Guard) Drop(of controller.ObjectID) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.pending[of] != nil {
		d.setPending(of, nil, d.now())
	}
}

func (d *Guard) expire(now time.Time) {
	if now.Sub(d.expiredAt) < time.Second {
		return
	}
	d.expiredAt = now
	maps.DeleteFunc(d.confirmed, func(_ uint64, done deletion) bool { return now.Sub(done.at) >= window })
	for uid, done := range d.recent {
		if now.Sub(done.at) >= window {
			d.count(done.moved, 0, -1)
			delete(d.recent, uid)
		}
	}
}

// Held counts what is held for one of the controllers.
func (d *Guard) Held(base *controller.Base) controller.HeldDeletions {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.holding() {
		return controller.HeldDeletions{}
	}
	held := controller.HeldDeletions{Value: confirmationValue(d.pendingSum)}
	for of, want := range d.pending {
		if of.Base == base {
			held.Parents++
			held.Count += len(want.uids)
		}
	}
	return held
}

// HeldUnknown reports whether deletions were held just before a restart and are not known again yet.
func (d *Guard) HeldUnknown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.holding() && d.now().Before(d.heldUntil.Add(restartGrace-window))
}

// held returns the pending deletions of a parent if they are held; else nil.
func (d *Guard) held(of controller.ObjectID) *pendingOf {
	if !d.holding() {
		return nil
	}
	return d.pending[of]
}

// HeldChildren returns the children of a parent whose deletions are held, and the value that confirms them.
func (d *Guard) HeldChildren(of controller.ObjectID) (children []object.Ref, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if want := d.held(of); want != nil {
		return want.refs, confirmationValue(want.sum)
	}
	return nil, ""
}

// FilterHeld returns those of the deletions that are held.
func (d *Guard) FilterHeld(of controller.ObjectID, deletions []plan.Action) []plan.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := d.held(of)
	return lists.Filter(deletions, func(a plan.Action) bool {
		return want != nil && slices.Contains(want.uids, stableDigest(a.Before.UID()))
	})
}

// confirmationValue formats a sum of UIDs for users to copy.
func confirmationValue(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// Hold is the decision to hold the deletions of one parent.
func Hold(deletions []plan.Action) Decision {
	var sum uint64
	for _, a := range deletions {
		sum += stableDigest(a.Before.UID())
	}
	return Decision{Held: true, Value: confirmationValue(sum), Withheld: deletions}
}

// stableDigest returns a digest that is the same in every process.
func stableDigest(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // Write never returns an error.
	return h.Sum64()
}

// Recorded returns the plan for the record: what is written, and what is withheld.
func (d *Decision) Recorded(written plan.Plan) plan.Plan {
	if len(d.Withheld) == 0 {
		return written
	}
	why := "; held by the deletion guard"
	if !d.Held {
		why = "; delayed by the deletion guard"
	}
	held := lists.Map(d.Withheld, func(a plan.Action) plan.Action {
		a.Reason += why
		return a
	})
	return plan.Plan{Stages: append([][]plan.Action{held}, written.Stages...), Equal: written.Equal}
}

// PendingError ends a run whose deletions wait.
type PendingError struct{ Delay time.Duration }

func (e *PendingError) Error() string { return "deletions delayed by the deletion guard" }

// maxListed is how many children an error names.
const maxListed = 3

// Err returns the error of a run whose deletions are withheld; nil if they are not.
func (d *Decision) Err() error {
	switch {
	case len(d.Withheld) == 0:
		return nil
	case !d.Held:
		return &PendingError{d.Wait}
	}
	names := lists.Map(d.Withheld[:min(len(d.Withheld), maxListed)], func(a plan.Action) string { return a.Ref.String() })
	list := strings.Join(names, ", ")
	if more := len(d.Withheld) - len(names); more > 0 {
		list += fmt.Sprintf(" and %d more", more)
	}
	what := "deletions"
	if len(d.Withheld) == 1 {
		what = "deletion"
	}
	return fmt.Errorf("%d %s held by the deletion guard: the hook response leaves out %s; fix the hook, "+
		"or confirm with the annotation %s=%s", len(d.Withheld), what, list, setpoint.AnnotationAllowDeletions, d.Value)
}

// Edits says whether an edit of a parent explains deletions of its children. The zero value knows none.
type Edits struct {
	// At is when the spec changed. Pending means that no run has succeeded since.
	At      time.Time
	Pending bool
	// spec is that of the last run; 0 if unknown.
	spec uint64
}

// Explain reports whether the parent's spec changed recently or since the last successful run. An unknown previous
// spec counts as unchanged, unless the controller has stored the status of an earlier generation.
func (e *Edits) Explain(parent *object.Object, storesStatus bool, now time.Time) bool {
	if spec := specDigest(parent); e.spec != spec {
		observed, err := strconv.ParseInt(string(parent.Field("status", "observedGeneration")), 10, 64)
		editedSinceStatus := err == nil && observed > 0 && observed < parent.Generation()
		if e.spec != 0 || storesStatus && editedSinceStatus {
			e.At, e.Pending = now, true
		}
		e.spec = spec
	}
	return e.Pending || !e.At.IsZero() && now.Sub(e.At) < window
}

// specDigest returns the generation, or a digest of all fields but metadata and status for kinds without one.
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
