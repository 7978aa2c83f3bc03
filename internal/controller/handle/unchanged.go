package handle

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// appliedDigests is how an owned object was left: digests of what was applied, and of what
// was stored then.
type appliedDigests struct{ applied, stored uint64 }

// isUnchanged says that an object was applied as it is now wanted, and lies there as it
// was left: a timer that finds nothing new makes no requests. Who asks for a look
// asks for the requests, too.
func (r *run) isUnchanged(desired *object.Object) bool {
	at := slices.IndexFunc(r.ownedNow, func(o *object.Object) bool { return o.Ref() == desired.Ref() })
	return at >= 0 && !r.retriesWrites() &&
		slices.Contains(r.memory.applied, appliedDigests{object.DigestOf(desired.JSON()), r.ownedNow[at].Digest()})
}

// rememberApplied remembers how an owned object was left, and of the others what still holds.
func (r *run) rememberApplied(applied, stored *object.Object) {
	if !stored.ControlledBy(r.stored.UID()) {
		return
	}
	holds := make(map[uint64]bool, len(r.ownedNow))
	for _, o := range r.ownedNow {
		holds[o.Digest()] = true
	}
	r.memory.applied = slices.DeleteFunc(r.memory.applied, func(l appliedDigests) bool { return !holds[l.stored] })
	r.memory.applied = append(r.memory.applied, appliedDigests{object.DigestOf(applied.JSON()), stored.Digest()})
}
