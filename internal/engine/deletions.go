package engine

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
	// recollection is how long after a restart it takes until what was held before is
	// held again.
	recollection = 10 * time.Second
)

// Deletions is the deletion guard of one controller: what its programs want to
// delete and have deleted lately, for no other reason than a response of the hook.
type Deletions struct {
	limit *plan.Guard
	now   func() time.Time
	// census counts the children of all parents of the controller.
	census func() int

	mu       sync.Mutex
	programs []*Controller
	// wanted are deletions that were not made yet, by parent; count is how many,
	// and sum is that of their UIDs.
	wanted map[claimant]*removals
	count  int
	sum    uint64
	// made are those of the window, by child; confirmed may be made, however many
	// they are.
	made, confirmed map[uint64]time.Time
	// children is how many there were when the first deletion was wanted, at
	// counted.
	children int
	counted  time.Time
	// expired is when what is older than the window was forgotten last.
	expired time.Time
	holding bool
	// heldBefore is until when deletions are taken to be held because they were
	// before a restart.
	heldBefore time.Time
	// allowed is the value that a person has confirmed.
	allowed string
}

// claimant is a parent of one of the programs.
type claimant struct {
	program *Controller
	key     queue.Key
}

// removals are the deletions that a parent's response asks for.
type removals struct {
	since time.Time
	uids  []uint64
	sum   uint64
	refs  []object.Ref
}

// NewDeletions makes the guard of a controller; nil as limit holds nothing. now is
// time.Now if nil.
func NewDeletions(limit *plan.Guard, now func() time.Time) *Deletions {
	if now == nil {
		now = time.Now
	}
	d := &Deletions{
		limit: limit, now: now,
		wanted: map[claimant]*removals{}, made: map[uint64]time.Time{}, confirmed: map[uint64]time.Time{},
	}
	d.census = d.countChildren
	return d
}

// Recall says that the controller held deletions when it was stopped.
func (d *Deletions) Recall() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.heldBefore = d.now().Add(deletionWindow)
}

// join has the children of a program counted.
func (d *Deletions) join(program *Controller) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.programs = append(d.programs, program)
}

// ruling says what becomes of the deletions that a parent's response asks for.
type ruling struct {
	// held says that a person has to confirm them, by value.
	held  bool
	value string
	// wait is how long they wait for those of other parents; 0 if they may be made.
	wait time.Duration
}

// rule decides about the deletions that a parent's response asks for now, in place
// of those it asked for before. confirms is the value with which its user confirms
// deletions.
func (d *Deletions) rule(of claimant, asked []plan.Action, confirms string) ruling {
	if d.limit == nil {
		return ruling{}
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.now()
	d.expire(now)
	since := now
	if before := d.wanted[of]; before != nil {
		since = before.since
	}
	want := d.unconfirmed(asked, since)
	if want != nil && confirms == valueOf(want.sum) {
		d.confirm(want, now)
		want = nil
	}
	d.replace(of, want, now)
	if d.allowed != "" && d.allowed == valueOf(d.sum) {
		d.confirmAll(now)
		return ruling{}
	}
	if want == nil {
		return ruling{}
	}
	return d.ruleOn(of, want, now)
}

// ruleOn decides about deletions that are noted.
func (d *Deletions) ruleOn(of claimant, want *removals, now time.Time) ruling {
	if d.holding {
		return ruling{held: true, value: valueOf(want.sum)}
	}
	if left := deletionDelay - now.Sub(want.since); left > 0 && d.children > d.limit.MaxDeletions {
		return ruling{wait: left}
	}
	for _, uid := range want.uids {
		d.made[uid] = now
	}
	d.replace(of, nil, now)
	return ruling{}
}

// unconfirmed are deletions that no person has confirmed; nil if there are none.
func (d *Deletions) unconfirmed(asked []plan.Action, since time.Time) *removals {
	want := &removals{since: since}
	for _, a := range asked {
		uid := stableDigest(a.Before.UID())
		if _, may := d.confirmed[uid]; may {
			continue
		}
		want.uids = append(want.uids, uid)
		want.sum += uid
		want.refs = append(want.refs, cloned(a.Ref))
	}
	if len(want.uids) == 0 {
		return nil
	}
	return want
}

// replace notes what a parent wants deleted, and whether that is too much now.
func (d *Deletions) replace(of claimant, want *removals, now time.Time) {
	if want != nil && (d.count == 0 || now.Sub(d.counted) > deletionWindow && !d.holding) {
		d.children, d.counted = d.census()+len(d.made), now
	}
	if before := d.wanted[of]; before != nil {
		d.count, d.sum = d.count-len(before.uids), d.sum-before.sum
		delete(d.wanted, of)
	}
	if want != nil {
		d.wanted[of] = want
		d.count, d.sum = d.count+len(want.uids), d.sum+want.sum
	}
	d.judge(now)
}

// judge says whether too many deletions are wanted now. The parents of those that
// may go on come back at once.
func (d *Deletions) judge(now time.Time) {
	held := d.holding
	d.holding = d.limit.Exceeded(plan.Tally{
		Wanted: d.count, Made: len(d.made), Children: d.children, Holding: held || now.Before(d.heldBefore),
	})
	if held && !d.holding {
		d.heldBefore = time.Time{}
		d.retry()
	}
}

func (d *Deletions) countChildren() int {
	n := 0
	for _, program := range d.programs {
		n += program.CountAllChildren()
	}
	return n
}

// confirm lets deletions be made.
func (d *Deletions) confirm(want *removals, now time.Time) {
	for _, uid := range want.uids {
		d.confirmed[uid] = now
	}
}

func (d *Deletions) confirmAll(now time.Time) {
	for _, want := range d.wanted {
		d.confirm(want, now)
	}
	clear(d.wanted)
	d.count, d.sum, d.holding, d.heldBefore = 0, 0, false, time.Time{}
	d.retry()
}

// retry has the parents looked at again that failed, for their deletions were held.
func (d *Deletions) retry() {
	for _, program := range d.programs {
		program.RetryNow()
	}
}

// Allow takes the value by which a person confirms deletions. One that does not fit
// what is held now confirms nothing, unless just that is held later.
func (d *Deletions) Allow(value string) {
	if d.limit == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.allowed = strings.Clone(value)
	if d.count > 0 && value == valueOf(d.sum) {
		d.confirmAll(d.now())
	}
}

// drop forgets what a parent wanted that is gone, or not to be touched.
func (d *Deletions) drop(of claimant) {
	if d.limit == nil {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.wanted[of] != nil {
		d.replace(of, nil, d.now())
	}
}

// expire forgets what is older than the window.
func (d *Deletions) expire(now time.Time) {
	if now.Sub(d.expired) < time.Second {
		return
	}
	d.expired = now
	for _, of := range []map[uint64]time.Time{d.made, d.confirmed} {
		for uid, at := range of {
			if now.Sub(at) >= deletionWindow {
				delete(of, uid)
			}
		}
	}
}

// Held says what of a controller is held.
type Held struct {
	// Deletions is how many, of so many Parents.
	Deletions, Parents int
	// Value confirms all of them, those of the other programs of the controller
	// too.
	Value string
}

// heldFor says what is held of a program.
func (d *Deletions) heldFor(program *Controller) Held {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.holding {
		return Held{}
	}
	held := Held{Value: valueOf(d.sum)}
	for of, want := range d.wanted {
		if of.program == program {
			held.Parents++
			held.Deletions += len(want.uids)
		}
	}
	return held
}

// unknown says that deletions were held before a restart, a moment ago.
func (d *Deletions) unknown() bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	return !d.holding && d.now().Before(d.heldBefore.Add(recollection-deletionWindow))
}

// heldOf are the children of a parent whose deletion is held, and the value that
// confirms them.
func (d *Deletions) heldOf(of claimant) (children []object.Ref, value string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := d.wanted[of]
	if want == nil || !d.holding {
		return nil, ""
	}
	return want.refs, valueOf(want.sum)
}

// heldAmong are those deletions that are held already.
func (d *Deletions) heldAmong(of claimant, deletions []plan.Action) []plan.Action {
	d.mu.Lock()
	defer d.mu.Unlock()
	want := d.wanted[of]
	if want == nil || !d.holding {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(deletions), func(a plan.Action) bool {
		return !slices.Contains(want.uids, stableDigest(a.Before.UID()))
	})
}

// valueOf is a sum of UIDs as a person copies it.
func valueOf(sum uint64) string { return fmt.Sprintf("%016x", sum) }

// valueOfAll is the value that confirms deletions of one parent.
func valueOfAll(deletions []plan.Action) string {
	var sum uint64
	for _, a := range deletions {
		sum += stableDigest(a.Before.UID())
	}
	return valueOf(sum)
}

// stableDigest of a UID is the same in every process.
func stableDigest(uid string) uint64 {
	h := fnv.New64a()
	_, _ = h.Write([]byte(uid)) // It returns no error.
	return h.Sum64()
}

// cloned is a reference that keeps no object in memory.
func cloned(ref object.Ref) object.Ref {
	return object.Ref{Kind: strings.Clone(ref.Kind), Namespace: strings.Clone(ref.Namespace), Name: strings.Clone(ref.Name)}
}
