package react

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// leaving is how an owned object was left: digests of what was applied, and of what
// was stored then.
type leaving struct{ applied, stored uint64 }

// lies says that an object was applied as it is now wanted, and lies there as it
// was left: a timer that finds nothing new makes no requests. Who asks for a look
// asks for the requests, too.
func (r *run) lies(wanted *object.Object) bool {
	at := slices.IndexFunc(r.ownedNow, func(o *object.Object) bool { return o.Ref() == wanted.Ref() })
	return at >= 0 && !r.pressed() &&
		slices.Contains(r.memory.left, leaving{object.DigestOf(wanted.JSON()), r.ownedNow[at].Digest()})
}

// left remembers how an owned object was left, and of the others what still holds.
func (r *run) left(applied, stored *object.Object) {
	if !stored.ControlledBy(r.stored.UID()) {
		return
	}
	holds := make(map[uint64]bool, len(r.ownedNow))
	for _, o := range r.ownedNow {
		holds[o.Digest()] = true
	}
	r.memory.left = slices.DeleteFunc(r.memory.left, func(l leaving) bool { return !holds[l.stored] })
	r.memory.left = append(r.memory.left, leaving{object.DigestOf(applied.JSON()), stored.Digest()})
}
