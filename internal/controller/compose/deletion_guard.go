package compose

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

const (
	// deletionWindow is how long a deletion counts after it was made, and how long
	// an edit of a parent explains deletions of its children.
	deletionWindow = 10 * time.Minute
	// deletionDelay is how long a deletion waits for those of other parents, which
	// may make it one of too many.
	deletionDelay = 2 * time.Second
	// restartGrace is how long after a restart it takes until what was held before is
	// held again.
	restartGrace = 10 * time.Second
)

// DeletionGuard is the deletion guard of one controller: what its programs want to
// delete and have deleted lately, for no other reason than a response of the hook.
type DeletionGuard struct {
	limit *plan.DeletionLimit
	now   func() time.Time
	// childCount counts the children of all parents of the controller.
	childCount func() int

	mu          sync.Mutex
	controllers []*Controller
	// pending are deletions that were not made yet, by parent; count is how many,
	// and sum is that of their UIDs.
	pending      map[guardedParent]*pendingDeletions
	pendingCount int
	pendingSum   uint64
	// recent are those of the window, by child; confirmed may be made, however many
	// they are.
	recent, confirmed map[uint64]time.Time
	// children is how many there were when the first deletion was wanted, at
	// counted.
	children  int
	countedAt time.Time
	// expiredAt is when what is older than the window was forgotten last.
	expiredAt time.Time
	holding   bool
	// heldUntil is until when deletions are taken to be held because they were
	// before a restart.
	heldUntil time.Time
	// confirmedValue is the value that a person has confirmed.
	confirmedValue string
}

// guardedParent is a parent of one of the programs.
type guardedParent struct {
	controller *Controller
	key        queue.Key
}

// pendingDeletions are the deletions that a parent's response asks for.
type pendingDeletions struct {
	since time.Time
	uids  []uint64
	sum   uint64
	refs  []object.Ref
}

// NewDeletionGuard makes the guard of a controller; nil as limit holds nothing. now is
// time.Now if nil.
func NewDeletionGuard(limit *plan.DeletionLimit, now func() time.Time) *DeletionGuard {
	if now == nil {
		now = time.Now
	}
	d := &DeletionGuard{
		limit: limit, now: now,
		pending: map[guardedParent]*pendingDeletions{}, recent: map[uint64]time.Time{}, confirmed: map[uint64]time.Time{},
	}
	d.childCount = d.countChildren
	return d
}

// RestoreHeld says that the controller held deletions when it was stopped.
func (d *DeletionGuard) RestoreHeld() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heldUntil = d.now().Add(deletionWindow)
}

// addController has the children of a program counted.
func (d *DeletionGuard) addController(program *Controller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.controllers = append(d.controllers, program)
}

// guardDecision says what becomes of the deletions that a parent's response asks for.
type guardDecision struct {
	// held says that a person has to confirm them, by value.
	held  bool
	value string
	// wait is how long they wait for those of other parents; 0 if they may be made.
	wait time.Duration
}

// decide decides about the deletions that a parent's response asks for now, in place
// of those it asked for before. confirms is the value with which its user confirms
// deletions.
func (d *DeletionGuard) decide(of guardedParent, asked []plan.Action, confirms string) guardDecision {
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
	want := d.unconfirmed(asked, since)
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

// decidePending decides about deletions that are noted.
func (d *DeletionGuard) decidePending(of guardedParent, want *pendingDeletions, now time.Time) guardDecision {
	if d.holding {
		return guardDecision{held: true, value: confirmationValue(want.sum)}
	}
	if left := deletionDelay - now.Sub(want.since); left > 0 && d.children > d.limit.MaxDeletions {
		return guardDecision{wait: left}
	}
	for _, uid := range want.uids {
		d.recent[uid] = now
	}
	d.setPending(of, nil, now)
	return guardDecision{}
}

// unconfirmed are deletions that no person has confirmed; nil if there are none.
func (d *DeletionGuard) unconfirmed(asked []plan.Action, since time.Time) *pendingDeletions {
	want := &pendingDeletions{since: since}
	for _, a := range asked {
		uid := stableDigest(a.Before.UID())
		if _, may := d.confirmed[uid]; may {
			continue
		}
		want.uids = append(want.uids, uid)
		want.sum += uid
		want.refs = append(want.refs, cloneRef(a.Ref))
	}
	if len(want.uids) == 0 {
		return nil
	}
	return want
}

// setPending notes what a parent wants deleted, and whether that is too much now.
func (d *DeletionGuard) setPending(of guardedParent, want *pendingDeletions, now time.Time) {
	if want != nil && (d.pendingCount == 0 || now.Sub(d.countedAt) > deletionWindow && !d.holding) {
		d.children, d.countedAt = d.childCount()+len(d.recent), now
	}
	if before := d.pending[of]; before != nil {
		d.pendingCount, d.pendingSum = d.pendingCount-len(before.uids), d.pendingSum-before.sum
		delete(d.pending, of)
	}
	if want != nil {
		d.pending[of] = want
		d.pendingCount, d.pendingSum = d.pendingCount+len(want.uids), d.pendingSum+want.sum
	}
	d.updateHolding(now)
}

// updateHolding says whether too many deletions are wanted now. The parents of those that
// may go on come back at once.
func (d *DeletionGuard) updateHolding(now time.Time) {
	held := d.holding
	d.holding = d.limit.Exceeded(plan.DeletionCount{
		Pending: d.pendingCount, Recent: len(d.recent), Children: d.children, Holding: held || now.Before(d.heldUntil),
	})
	if held && !d.holding {
		d.heldUntil = time.Time{}
		d.retry()
	}
}

func (d *DeletionGuard) countChildren() int {
	n := 0
	for _, program := range d.controllers {
		n += program.CountAllChildren()
	}
	return n
}

// confirm lets deletions be made.
func (d *DeletionGuard) confirm(want *pendingDeletions, now time.Time) {
	for _, uid := range want.uids {
		d.confirmed[uid] = now
	}
}

func (d *DeletionGuard) confirmAll(now time.Time) {
	for _, want := range d.pending {
		d.confirm(want, now)
	}
	clear(d.pending)
	d.pendingCount, d.pendingSum, d.holding, d.heldUntil = 0, 0, false, time.Time{}
	d.retry()
}

// retry has the parents looked at again that failed, for their deletions were held.
func (d *DeletionGuard) retry() {
	for _, program := range d.controllers {
		program.RetryNow()
	}
}

// Allow takes the value by which a person confirms deletions. One that does not fit
// what is held now confirms nothing, unless just that is held later.
func (d *DeletionGuard) Allow(value string) {
	if d.limit == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.confirmedValue = strings.Clone(value)
	if d.pendingCount > 0 && value == confirmationValue(d.pendingSum) {
		d.confirmAll(d.now())
	}
}

// drop forgets what a parent wanted that is gone, or not to be touched.
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

// expire forgets what is older than the window.
func (d *DeletionGuard) expire(now time.Time) {
	if now.Sub(d.expiredAt) < time.Second {
		return
	}
	d.expiredAt = now
	for _, of := range []map[uint64]time.Time{d.recent, d.confirmed} {
		for uid, at := range of {
			if now.Sub(at) >= deletionWindow {
				delete(of, uid)
			}
		}
	}
}

// HeldDeletions says what of a controller is held.
type HeldDeletions struct {
	// Count is how many, of so many Parents.
	Count, Parents int
	// Value confirms all of them, those of the other programs of the controller
	// too.
	Value string
}

// heldByController says what is held of a program.
func (d *DeletionGuard) heldByController(program *Controller) HeldDeletions {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.holding {
		return HeldDeletions{}
	}
	held := HeldDeletions{Value: confirmationValue(d.pendingSum)}
	for of, want := range d.pending {
		if of.controller == program {
			held.Parents++
			held.Count += len(want.uids)
		}
	}
	return held
}

// heldUnknown says that deletions were held before a restart, a moment ago.
func (d *DeletionGuard) heldUnknown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.holding && d.now().Before(d.heldUntil.Add(restartGrace-deletionWindow))
}

// heldChildren are the children of a parent whose deletion is held, and the value that
// confirms them.
func (d *DeletionGuard) heldChildren(of guardedParent) (children []object.Ref, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := d.pending[of]
	if want == nil || !d.holding {
		return nil, ""
	}
	return want.refs, confirmationValue(want.sum)
}

// filterHeld are those deletions that are held already.
func (d *DeletionGuard) filterHeld(of guardedParent, deletions []plan.Action) []plan.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := d.pending[of]
	if want == nil || !d.holding {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(deletions), func(a plan.Action) bool {
		return !slices.Contains(want.uids, stableDigest(a.Before.UID()))
	})
}

// confirmationValue is a sum of UIDs as a person copies it.
func confirmationValue(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// confirmationValueFor is the value that confirms deletions of one parent.
func confirmationValueFor(deletions []plan.Action) string {
	var sum uint64
	for _, a := range deletions {
		sum += stableDigest(a.Before.UID())
	}
	return confirmationValue(sum)
}

// stableDigest of a UID is the same in every process.
func stableDigest(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // It returns no error.
	return h.Sum64()
}

// cloneRef is a reference that keeps no object in memory.
func cloneRef(ref object.Ref) object.Ref {
	return object.Ref{Kind: strings.Clone(ref.Kind), Namespace: strings.Clone(ref.Namespace), Name: strings.Clone(ref.Name)}
}
