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

// dependents are the objects that a handled object owns. They are written, and so is what else a response applies or
// deletes.
type dependents struct {
	*Controller
	*controller.Run

	// writer is that of the run, and dry is nil unless the run writes nothing.
	writer writer
	dry    *dryRun
	// remembered is nil for a write outside of the worker of the object.
	remembered *appliedObjects
	// byKind are those that were observed, by kind in the order of the program, and now those after our writes.
	byKind [][]*object.Object
	now    []*object.Object
	// reapplies means that also what is unchanged is applied.
	reapplies bool
	// written means that one was written, and stale that it was since they were observed.
	written, stale bool
}

// appliedObjects are what responses have applied.
type appliedObjects struct {
	// digests are those of the owned objects after the latest apply. names says by their short names which owned objects
	// responses have applied, and which not, for programs with Drift handlers.
	digests []appliedDigests
	names   map[string]bool
}

// observe reads them from the caches, and from what a dry run has written.
func (d *dependents) observe() {
	d.byKind = d.ownedObjects()
	d.now, d.stale = slices.Concat(d.byKind...), false
}

// appliedNameLength is the length of the short name of an applied object, a hash of its reference.
const appliedNameLength = 6

func appliedName(ref object.Ref) string {
	sum := sha256.Sum256([]byte(ref.String()))
	return base64.RawURLEncoding.EncodeToString(sum[:])[:appliedNameLength]
}

// noteApplied notes a write of an owned object; stored is nil after a deletion.
func (d *dependents) noteApplied(ref object.Ref, stored *object.Object) {
	if d.remembered == nil || !d.rules.Handles(hook.ReasonDrift) {
		return
	}
	if stored != nil && stored.ControlledBy(d.Stored.UID()) {
		d.remembered.names[appliedName(ref)] = true
	} else {
		delete(d.remembered.names, appliedName(ref))
	}
}

// findApplied asks the API server whose the owned objects are of which that is not known: the connection may have ended
// before the response to a create, and Setpoint before the record of it was stored. It reports whether it asked.
func (d *dependents) findApplied(ctx context.Context) (asked bool, err error) {
	if d.Phase != controller.PhaseManaged || !d.rules.Handles(hook.ReasonDrift) {
		return false, nil
	}
	for i, resource := range d.program.Owns {
		for _, o := range d.byKind[i] {
			name := appliedName(o.Ref())
			if _, known := d.remembered.names[name]; known {
				continue
			}
			asked = true
			existing, err := d.writer.Ownership(ctx, resource, o.Namespace(), o.Name())
			switch {
			case apply.NotFound(err):
			case apply.Forbidden(err):
				// A program may watch what it may not get. It can go on without.
				d.remembered.names[name] = false
			case err != nil:
				return asked, fmt.Errorf("read who applied %s: %w", o.Ref(), err)
			default:
				d.remembered.names[name] = slices.Contains(existing.Managers, d.program.Manager)
			}
		}
	}
	return asked, nil
}

// appliedNow returns the owned objects that responses applied.
func (d *dependents) appliedNow() []*object.Object {
	var all []*object.Object
	for _, o := range d.now {
		if d.remembered.names[appliedName(o.Ref())] {
			all = append(all, o)
		}
	}
	return all
}

// appliedText returns the short names of the applied objects that exist, as the record has them.
func (d *dependents) appliedText() string {
	if !d.rules.Handles(hook.ReasonDrift) {
		return ""
	}
	names := map[string]bool{}
	for _, o := range d.appliedNow() {
		names[appliedName(o.Ref())] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), "")
}

// restoreApplied restores the short names from a record. Of other owned objects, findApplied asks whose they are.
func (d *dependents) restoreApplied(recorded lasthandled.Record) {
	if !d.rules.Handles(hook.ReasonDrift) {
		return
	}
	d.remembered.names = map[string]bool{}
	for name := range slices.Chunk([]byte(recorded[lasthandled.Object].Applied), appliedNameLength) {
		d.remembered.names[string(name)] = true
	}
}

// appliedDigests are digests of an owned object, as it was applied and as it was stored.
type appliedDigests struct{ applied, stored uint64 }

// isUnchanged reports whether an object needs no apply, because neither the desired nor the
// stored object has changed: a timer without changes sends no requests. A manual reconcile
// always applies.
func (d *dependents) isUnchanged(desired *object.Object) bool {
	if d.remembered == nil {
		return false
	}
	at := slices.IndexFunc(d.now, func(o *object.Object) bool { return o.Ref() == desired.Ref() })
	return at >= 0 && !d.reapplies &&
		slices.Contains(d.remembered.digests, appliedDigests{object.DigestOf(desired.JSON()), d.now[at].Digest()})
}

// rememberApplied stores the digests of an applied object, and removes outdated ones.
func (d *dependents) rememberApplied(applied, stored *object.Object) {
	if d.remembered == nil || !stored.ControlledBy(d.Stored.UID()) {
		return
	}
	holds := make(map[uint64]bool, len(d.now))
	for _, o := range d.now {
		holds[o.Digest()] = true
	}
	d.remembered.digests = slices.DeleteFunc(d.remembered.digests, func(l appliedDigests) bool { return !holds[l.stored] })
	d.remembered.digests = append(d.remembered.digests, appliedDigests{object.DigestOf(applied.JSON()), stored.Digest()})
}

// noteOwnedWritten adds our own writes of owned objects to what the handlers have seen.
func (r *run) noteOwnedWritten() {
	if r.rules.Handles(hook.ReasonDrift) {
		r.pass.OwnedWritten(r.pass.Digests.Owned(r.dependents.appliedNow()))
	}
}
