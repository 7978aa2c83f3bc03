package handler

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// A drift is a change, by another client, of an owned object that a response applied. What other controllers make for
// the object is not: another program, a composite or a decorator may own objects of the same kind beside this one.

// appliedNameLength is the length of the short name of an applied object, a hash of its reference.
const appliedNameLength = 6

func appliedName(ref object.Ref) string {
	sum := sha256.Sum256([]byte(ref.String()))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:appliedNameLength]
}

// noteApplied notes a write of an owned object; stored is nil after a deletion.
func (r *run) noteApplied(ref object.Ref, stored *object.Object) {
	if r.detached || !r.rules.Handles(hook.ReasonDrift) {
		return
	}
	if stored != nil && stored.ControlledBy(r.Stored.UID()) {
		r.memory.appliedNames[appliedName(ref)] = true
	} else {
		delete(r.memory.appliedNames, appliedName(ref))
	}
}

// findApplied asks the API server whose the owned objects are of which that is not known: the connection may have ended
// before the response to a create, and Setpoint before the record of it was stored.
func (r *run) findApplied(ctx context.Context) error {
	if r.Phase != controller.PhaseManaged || !r.rules.Handles(hook.ReasonDrift) {
		return nil
	}
	asked := false
	for i, resource := range r.program.Owns {
		for _, o := range r.owned[i] {
			name := appliedName(o.Ref())
			if _, known := r.memory.appliedNames[name]; known {
				continue
			}
			asked = true
			existing, err := r.writer().Ownership(ctx, resource, o.Namespace(), o.Name())
			switch {
			case apply.NotFound(err):
			case apply.Forbidden(err):
				// A program may watch what it may not get. It can go on without.
				r.memory.appliedNames[name] = false
			case err != nil:
				return fmt.Errorf("read who applied %s: %w", o.Ref(), err)
			default:
				r.memory.appliedNames[name] = slices.Contains(existing.Managers, r.program.Manager)
			}
		}
	}
	if asked {
		r.pass.OwnedDigest = r.pass.Digests.Owned(r.appliedNow())
	}
	return nil
}

// appliedNow returns the owned objects that responses applied.
func (r *run) appliedNow() []*object.Object {
	var all []*object.Object
	for _, o := range r.ownedNow {
		if r.memory.appliedNames[appliedName(o.Ref())] {
			all = append(all, o)
		}
	}
	return all
}

// appliedText returns the short names of the applied objects that exist, as the record has them.
func (r *run) appliedText() string {
	if !r.rules.Handles(hook.ReasonDrift) {
		return ""
	}
	names := map[string]bool{}
	for _, o := range r.appliedNow() {
		names[appliedName(o.Ref())] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), "")
}

// restoreApplied restores the short names from a record. Of other owned objects, findApplied asks whose they are.
func (r *run) restoreApplied(recorded lasthandled.Record) {
	if !r.rules.Handles(hook.ReasonDrift) {
		return
	}
	r.memory.appliedNames = map[string]bool{}
	for name := range slices.Chunk([]byte(recorded[lasthandled.Object].Applied), appliedNameLength) {
		r.memory.appliedNames[string(name)] = true
	}
}

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
	return at >= 0 && !r.pass.RetriesWrites() &&
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

// noteOwnedWritten adds our own writes of owned objects to what the handlers have seen.
func (r *run) noteOwnedWritten() {
	if r.rules.Handles(hook.ReasonDrift) {
		r.pass.OwnedWritten(r.pass.Digests.Owned(r.appliedNow()))
	}
}
