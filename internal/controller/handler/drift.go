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
	if r.detached || !r.program.handles(hook.ReasonDrift) {
		return
	}
	if stored == nil || !stored.ControlledBy(r.Stored.UID()) {
		delete(r.memory.appliedNames, appliedName(ref))
		return
	}
	r.noteOwner(ref, true)
}

// noteOwner notes whether a response applied an owned object.
func (r *run) noteOwner(ref object.Ref, ours bool) {
	if r.memory.appliedNames == nil {
		r.memory.appliedNames = map[string]bool{}
	}
	r.memory.appliedNames[appliedName(ref)] = ours
}

// findApplied asks the API server whose the owned objects are of which that is not known: the connection may have ended
// before the response to a create, and Setpoint before the record of it was stored.
func (r *run) findApplied(ctx context.Context) error {
	if r.Phase != controller.PhaseManaged || !r.program.handles(hook.ReasonDrift) {
		return nil
	}
	asked := false
	for i, resource := range r.program.Owns {
		for _, o := range r.owned[i] {
			if _, known := r.memory.appliedNames[appliedName(o.Ref())]; known {
				continue
			}
			asked = true
			existing, err := r.writer().Ownership(ctx, resource, o.Namespace(), o.Name())
			switch {
			case apply.NotFound(err):
			case apply.Forbidden(err):
				// A program may watch what it may not get. It can go on without.
				r.noteOwner(o.Ref(), false)
			case err != nil:
				return fmt.Errorf("read who applied %s: %w", o.Ref(), err)
			default:
				r.noteOwner(o.Ref(), slices.Contains(existing.Managers, r.program.Manager))
			}
		}
	}
	if asked {
		r.ownedDigest = r.digests.owned(r.appliedNow())
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
	if !r.program.handles(hook.ReasonDrift) {
		return ""
	}
	names := map[string]bool{}
	for _, o := range r.appliedNow() {
		names[appliedName(o.Ref())] = true
	}
	return strings.Join(slices.Sorted(maps.Keys(names)), "")
}

// restoreApplied restores the short names from a record. A record from before they were recorded, or before a handler
// of the program was one for Drift, does not tell whose the owned objects are: then all count.
func (r *run) restoreApplied(recorded handledState) {
	if len(recorded) == 0 || !r.program.handles(hook.ReasonDrift) {
		return
	}
	r.memory.appliedNames = map[string]bool{}
	text, none := recorded[uidEntry].Applied, r.digests.owned(nil)
	for name := range slices.Chunk([]byte(text), appliedNameLength) {
		r.memory.appliedNames[string(name)] = true
	}
	isNone := func(e entry) bool { return e.OwnedDigest == none }
	if text != "" || slices.ContainsFunc(slices.Collect(maps.Values(recorded)), isNone) {
		return
	}
	for _, owned := range r.ownedBy(r.Stored) {
		for _, o := range owned {
			r.memory.appliedNames[appliedName(o.Ref())] = true
		}
	}
}

// updateOwnedDigests adds our own writes of owned objects to the digests in the entries. It skips handlers that have
// not been called for a drift yet.
func (r *run) updateOwnedDigests() {
	if !r.program.handles(hook.ReasonDrift) {
		return
	}
	before := r.ownedDigest
	if r.ownedDigest = r.digests.owned(r.appliedNow()); r.ownedDigest == before {
		return
	}
	for _, h := range r.memory.handlers {
		e := h.entry()
		if !h.handles(hook.ReasonDrift) || e.Digest == "" || e.OwnedDigest != before {
			continue
		}
		e.OwnedDigest = r.ownedDigest
		h.pendingEntry = &e
		if h.attempt.requeued && h.attempt.reason == hook.ReasonDrift {
			h.attempt.digest = r.ownedDigest
		}
	}
}

// owned returns a digest of the owned objects' fields that other clients could have changed,
// independent of their order.
func (d *digestCache) owned(owned []*object.Object) string {
	parts := make([]string, 0, len(owned))
	for _, o := range owned {
		part, known := d.parts[o]
		if !known {
			part = ownedObjectDigest(o)
			if d.parts == nil {
				d.parts = map[*object.Object]string{}
			}
			d.parts[o] = part
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	return digest(parts)
}

// deploymentRevision is an annotation that Kubernetes sets on each rollout of a Deployment.
const deploymentRevision = "deployment.kubernetes.io/revision"

// ownedObjectDigest returns the digest of one owned object.
func ownedObjectDigest(o *object.Object) string {
	whole := watchableFields(o)
	if metadata, isObject := whole["metadata"].(map[string]any); isObject {
		annotations, _ := metadata["annotations"].(map[string]any)
		delete(annotations, deploymentRevision)
	}
	removeBookkeeping(whole)
	return o.Ref().String() + " " + digest(whole)
}
