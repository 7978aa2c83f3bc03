package handler

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// appliedDigests are digests of an owned object, as it was applied and as it was stored.
type appliedDigests struct{ applied, stored uint64 }

// isUnchanged reports whether an object needs no apply, because neither the desired nor the
// stored object has changed: a timer without changes sends no requests. A manual reconcile
// always applies.
func (r *run) isUnchanged(desired *object.Object) bool {
	if r.detached {
		return false
	}
	at := slices.IndexFunc(r.ownedNow, func(o *object.Object) bool { return o.Ref() == desired.Ref() })
	return at >= 0 && !r.retriesWrites() &&
		slices.Contains(r.memory.applied, appliedDigests{object.DigestOf(desired.JSON()), r.ownedNow[at].Digest()})
}

// rememberApplied stores the digests of an applied object, and removes outdated ones.
func (r *run) rememberApplied(applied, stored *object.Object) {
	if r.detached || !stored.ControlledBy(r.Stored.UID()) {
		return
	}
	holds := make(map[uint64]bool, len(r.ownedNow))
	for _, o := range r.ownedNow {
		holds[o.Digest()] = true
	}
	r.memory.applied = slices.DeleteFunc(r.memory.applied, func(l appliedDigests) bool { return !holds[l.stored] })
	r.memory.applied = append(r.memory.applied, appliedDigests{object.DigestOf(applied.JSON()), stored.Digest()})
}
