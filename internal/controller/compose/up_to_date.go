package compose

import (
	"cmp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// upToDateChild says that a child in some state is what a desired object makes of
// it. The child goes by the digest of its UID.
type upToDateChild struct{ child, observed, desired uint64 }

// upToDateChildren are those on one parent's children, sorted by child. They hold no
// pointers: every child of every parent has one.
type upToDateChildren []upToDateChild

func childDigest(o *object.Object) uint64 { return object.DigestOf([]byte(o.UID())) }

func (a upToDateChildren) find(child uint64) (int, bool) {
	return slices.BinarySearchFunc(a, child, func(one upToDateChild, child uint64) int { return cmp.Compare(one.child, child) })
}

// add notes that a stored child is what the desired one makes of it.
func (a *upToDateChildren) add(stored *object.Object, desired uint64) {
	now := upToDateChild{child: childDigest(stored), observed: contentDigest(stored), desired: desired}
	at, found := a.find(now.child)
	if found {
		(*a)[at] = now
		return
	}
	*a = slices.Insert(*a, at, now)
}

// contains says whether that was noted.
func (a upToDateChildren) contains(observed *object.Object, desired uint64) bool {
	at, found := a.find(childDigest(observed))
	return found && a[at].observed == contentDigest(observed) && a[at].desired == desired
}

// grow makes room for so many, neither more nor in many steps.
func (a *upToDateChildren) grow(children int) {
	if cap(*a) < children {
		*a = append(make(upToDateChildren, 0, children), *a...)
	}
}

// prune forgets those on children that are not present any more.
func (a *upToDateChildren) prune(present map[uint64]bool) {
	*a = slices.DeleteFunc(*a, func(one upToDateChild) bool { return !present[one.child] })
}

// contentDigest is a digest of what a desired object can have a say in. Where the
// server counts generations, a change of status leaves it alone.
func contentDigest(o *object.Object) uint64 {
	if o.Generation() > 0 {
		return o.IntentDigest()
	}
	return o.Digest()
}
