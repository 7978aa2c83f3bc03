package composite

import (
	"cmp"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// upToDateChild says that a child in an observed state matches a desired object. child is a digest
// of its UID.
type upToDateChild struct{ child, observed, desired uint64 }

// upToDateChildren are those of one parent, sorted by child. They have no pointers, to keep them
// cheap for the garbage collector.
type upToDateChildren []upToDateChild

func childDigest(o *object.Object) uint64 { return object.DigestOf([]byte(o.UID())) }

func (a upToDateChildren) find(child uint64) (int, bool) {
	return slices.BinarySearchFunc(a, child, func(one upToDateChild, child uint64) int { return cmp.Compare(one.child, child) })
}

// add stores that a child matches the desired object.
func (a *upToDateChildren) add(stored *object.Object, desired uint64) {
	now := upToDateChild{child: childDigest(stored), observed: contentDigest(stored), desired: desired}
	at, found := a.find(now.child)
	if found {
		(*a)[at] = now
		return
	}
	*a = slices.Insert(*a, at, now)
}

// contains reports whether that was stored.
func (a upToDateChildren) contains(observed *object.Object, desired uint64) bool {
	at, found := a.find(childDigest(observed))
	return found && a[at].observed == contentDigest(observed) && a[at].desired == desired
}

// grow allocates space once.
func (a *upToDateChildren) grow(children int) {
	if cap(*a) < children {
		*a = append(make(upToDateChildren, 0, children), *a...)
	}
}

// prune drops children that no longer exist.
func (a *upToDateChildren) prune(present map[uint64]bool) {
	*a = slices.DeleteFunc(*a, func(one upToDateChild) bool { return !present[one.child] })
}

// contentDigest returns a digest of what desired objects can set. For kinds with generations it
// does not include the status.
func contentDigest(o *object.Object) uint64 {
	if o.Generation() > 0 {
		return o.IntentDigest()
	}
	return o.Digest()
}
