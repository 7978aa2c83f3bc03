package engine

import (
	"cmp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// agreement says that a child in some state is what a desired object makes of
// it. The child goes by the digest of its UID.
type agreement struct{ child, observed, desired uint64 }

// agreements are those on one parent's children, sorted by child. They hold no
// pointers: every child of every parent has one.
type agreements []agreement

func childOf(o *object.Object) uint64 { return object.DigestOf([]byte(o.UID())) }

func (a agreements) find(child uint64) (int, bool) {
	return slices.BinarySearchFunc(a, child, func(one agreement, child uint64) int { return cmp.Compare(one.child, child) })
}

// note notes that a stored child is what the desired one makes of it.
func (a *agreements) note(stored *object.Object, desired uint64) {
	now := agreement{child: childOf(stored), observed: essence(stored), desired: desired}
	at, found := a.find(now.child)
	if found {
		(*a)[at] = now
		return
	}
	*a = slices.Insert(*a, at, now)
}

// hold says whether that was noted.
func (a agreements) hold(observed *object.Object, desired uint64) bool {
	at, found := a.find(childOf(observed))
	return found && a[at].observed == essence(observed) && a[at].desired == desired
}

// expect makes room for so many, neither more nor in many steps.
func (a *agreements) expect(children int) {
	if cap(*a) < children {
		*a = append(make(agreements, 0, children), *a...)
	}
}

// prune forgets those on children that are not present any more.
func (a *agreements) prune(present map[uint64]bool) {
	*a = slices.DeleteFunc(*a, func(one agreement) bool { return !present[one.child] })
}

// essence is a digest of what a desired object can have a say in. Where the
// server counts generations, a change of status leaves it alone.
func essence(o *object.Object) uint64 {
	if o.Generation() > 0 {
		return o.Intent()
	}
	return o.Digest()
}
