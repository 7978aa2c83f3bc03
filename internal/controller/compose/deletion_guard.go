package compose

import (
	"fmt"
	"hash/fnv"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
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
	// childCount counts the children of all parents of the controller.
	childCount func() int

	mu          sync.Mutex
	controllers []*Controller
	// pending are the deletions not made yet, by parent. pendingCount is their number and
	// pendingSum the sum of their UIDs.
	pending      map[guardedParent]*pendingDeletions
	pendingCount int
	pendingSum   uint64
	// recent are the deletions within the window, by child; confirmed ones are always allowed.
	recent, confirmed map[uint64]time.Time
	// children is how many children there were at countedAt, when the first deletion became
	// pending.
	children  int
	countedAt time.Time
	// expiredAt is when entries older than the window were last dropped.
	expiredAt time.Time
	holding   bool
	// heldUntil is until when deletions count as held because they were held before a restart.
	heldUntil time.Time
	// confirmedValue is the value a user confirmed.
	confirmedValue string
}

// guardedParent is a parent of one of the programs.
type guardedParent struct {
	controller *Controller
	key        queue.Key
}

// pendingDeletions are the deletions of one parent's response.
type pendingDeletions struct {
	since time.Time
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
		pending: map[guardedParent]*pendingDeletions{}, recent: map[uint64]time.Time{}, confirmed: map[uint64]time.Time{},
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
func (d *DeletionGuard) decide(of guardedParent, deletions []plan.Action, confirms string) guardDecision {
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
	want := d.unconfirmed(deletions, since)
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

// unconfirmed returns the deletions that no user has confirmed; nil if there are none.
func (d *DeletionGuard) unconfirmed(deletions []plan.Action, since time.Time) *pendingDeletions {
	want := &pendingDeletions{since: since}
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

// updateHolding compares the deletions with the limit. It retries the parents if the guard no
// longer holds their deletions.
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

// confirm allows deletions.
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
	if d.pendingCount > 0 && value == confirmationValue(d.pendingSum) {
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
	return d.limit.Exceeded(plan.DeletionCount{Pending: deletions, Recent: len(d.recent), Children: d.childCount()})
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
	for _, of := range []map[uint64]time.Time{d.recent, d.confirmed} {
		for uid, at := range of {
			if now.Sub(at) >= deletionWindow {
				delete(of, uid)
			}
		}
	}
}

func (d *DeletionGuard) heldByController(program *Controller) controller.HeldDeletions {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.holding {
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
	return !d.holding && d.now().Before(d.heldUntil.Add(restartGrace-deletionWindow))
}

// heldChildren returns the children of a parent whose deletions are held, and the value that
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

// filterHeld returns those of the deletions that are held.
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
