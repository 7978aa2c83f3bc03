package handler

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	utiljson "k8s.io/apimachinery/pkg/util/json"

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
	if r.detached || !r.program.handles(hook.ReasonDrift) {
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
	if r.Phase != controller.PhaseManaged || !r.program.handles(hook.ReasonDrift) {
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

// restoreApplied restores the short names from a record. Of other owned objects, findApplied asks whose they are.
func (r *run) restoreApplied(recorded lasthandled.Record) {
	if !r.program.handles(hook.ReasonDrift) {
		return
	}
	r.memory.appliedNames = map[string]bool{}
	for name := range slices.Chunk([]byte(recorded[lasthandled.Object].Applied), appliedNameLength) {
		r.memory.appliedNames[string(name)] = true
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
		if !h.handles(hook.ReasonDrift) {
			continue
		}
		for _, p := range r.memory.seenBy(h) {
			e := *cmp.Or(p.pendingEntry, &h.storedEntry)
			if e.Digest == "" || e.OwnedDigest != before {
				continue
			}
			e.OwnedDigest = r.ownedDigest
			p.pendingEntry = &e
			if p.attempt.requeued && p.attempt.reason == hook.ReasonDrift {
				p.attempt.digest = r.ownedDigest
			}
		}
	}
}

// digestCache has the digests of the objects that a run has seen. A version of an object never
// changes, so its digests stay valid.
type digestCache struct {
	object  *object.Object
	watched []string
	// state is the digest of the whole object stateOf.
	stateOf *object.Object
	state   string
	parts   map[*object.Object]string
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
	return lasthandled.Digest(parts)
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
	return o.Ref().String() + " " + lasthandled.Digest(whole)
}

// annotationPrefix is that of Setpoint's own annotations, kopfAnnotationPrefix that of Kopf's
// records, and lastAppliedAnnotation is kubectl's. Handlers never watch them: two controllers
// that did would trigger each other forever.
const (
	annotationPrefix      = "setpoint.dev/"
	kopfAnnotationPrefix  = "kopf.zalando.org/"
	lastAppliedAnnotation = "kubectl.kubernetes.io/last-applied-configuration"
)

// decodeObject decodes a JSON object; integers stay integers. Other values become an empty
// object, so that lookups find nothing.
func decodeObject(data []byte) map[string]any {
	fields, err := object.Decode(data)
	if err != nil || fields == nil {
		return map[string]any{}
	}
	return fields
}

// watchedFields returns the part of an object that a handler watches.
func (h *Handler) watchedFields(o *object.Object) map[string]any {
	if len(h.Fields) == 0 {
		return watchableFields(o, h.IgnoredAnnotations...)
	}
	part := map[string]any{}
	for _, path := range h.Fields {
		if text := o.Field(path...); text != nil {
			var value any
			// The object was parsed before, so its parts are valid.
			_ = utiljson.Unmarshal(text, &value)
			object.SetField(part, value, path...)
		}
	}
	removeBookkeeping(part, h.IgnoredAnnotations...)
	return part
}

// Watches reports whether the handler watches a field or a part of it.
func (h *Handler) Watches(path []string) bool {
	if len(h.Fields) > 0 {
		return slices.ContainsFunc(h.Fields, func(watched []string) bool {
			return len(watched) <= len(path) && slices.Equal(watched, path[:len(watched)])
		})
	}
	switch path[0] {
	case "apiVersion", "kind", "status":
		return false
	case "metadata":
		return len(path) > 1 && (path[1] == "labels" || path[1] == "annotations")
	}
	return true
}

// watchableFields returns an object without its status and the metadata of other controllers, such as
// annotations with the ignored prefixes.
func watchableFields(o *object.Object, ignored ...string) map[string]any {
	whole := decodeObject(o.JSON())
	for _, name := range []string{"apiVersion", "kind", "status"} {
		delete(whole, name)
	}
	metadata, _ := whole["metadata"].(map[string]any)
	maps.DeleteFunc(metadata, func(name string, _ any) bool { return name != "labels" && name != "annotations" })
	removeBookkeeping(whole, ignored...)
	return whole
}

// removeBookkeeping removes unwatched annotations and records in the status, and the objects
// that are empty then.
func removeBookkeeping(whole map[string]any, ignored ...string) {
	metadata, _ := whole["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	maps.DeleteFunc(annotations, func(key string, _ any) bool {
		return key == lastAppliedAnnotation || strings.HasPrefix(key, annotationPrefix) ||
			strings.HasPrefix(key, kopfAnnotationPrefix) ||
			slices.ContainsFunc(ignored, func(prefix string) bool { return strings.HasPrefix(key, prefix) })
	})
	for _, name := range []string{"labels", "annotations"} {
		if members, isObject := metadata[name].(map[string]any); isObject && len(members) == 0 {
			delete(metadata, name)
		}
	}
	if metadata != nil && len(metadata) == 0 {
		delete(whole, "metadata")
	}
	status, isObject := whole["status"].(map[string]any)
	delete(status, lasthandled.StatusField)
	if isObject && len(status) == 0 {
		delete(whole, "status")
	}
}

// differs reports whether more of an object differs than the records of handlers, which Setpoint
// writes after each call.
func differs(old, now *object.Object) bool {
	return old.Digest() != now.Digest() && !reflect.DeepEqual(withoutRecords(old), withoutRecords(now))
}

func withoutRecords(o *object.Object) map[string]any {
	whole := decodeObject(o.JSON())
	if metadata, isObject := whole["metadata"].(map[string]any); isObject {
		delete(metadata, "resourceVersion")
	}
	removeBookkeeping(whole)
	return whole
}

// watchedDigests returns a digest of the watched fields for each handler. Handlers that watch
// the whole object share one.
func (p *Program) watchedDigests(o *object.Object) []string {
	digests, whole := make([]string, len(p.Handlers)), ""
	for i := range p.Handlers {
		h := &p.Handlers[i]
		if len(h.Fields) > 0 {
			digests[i] = lasthandled.Digest(h.watchedFields(o))
			continue
		}
		if whole == "" {
			whole = lasthandled.Digest(watchableFields(o, h.IgnoredAnnotations...))
		}
		digests[i] = whole
	}
	return digests
}

// watchedDigestsOf returns the watched digests of the stored object or a former version of it.
func (r *run) watchedDigestsOf(o *object.Object) []string {
	if d := &r.digests; d.object != o {
		if d.object == nil || !r.program.differsOnlyInStatus(d.object, o) {
			d.watched = r.program.watchedDigests(o)
		}
		d.object = o
	}
	return r.digests.watched
}

// differsOnlyInStatus reports whether no watched field can have changed: the API server counts
// generations and the generation is the same. A dry run may change an object without a new
// generation.
func (p *Program) differsOnlyInStatus(former, o *object.Object) bool {
	counts := p.Resource.Custom && p.Resource.Status && o.Generation() > 0 && former.Version() < o.Version()
	return counts && former.UID() == o.UID() && former.IntentDigest() == o.IntentDigest() &&
		!slices.ContainsFunc(p.Handlers, func(h Handler) bool { return h.watchesStatus() })
}

// Changes returns how the fields that a handler watches differ, sorted by path.
func (h *Handler) Changes(old, now *object.Object) []hook.FieldChange {
	if old == nil || now == nil || old == now {
		return nil
	}
	before, after := h.watchedFields(old), h.watchedFields(now)
	// Metadata always exist. They only look deleted when nothing watched remains in them.
	for _, side := range []map[string]any{before, after} {
		if side["metadata"] == nil {
			side["metadata"] = map[string]any{}
		}
	}
	return changes(before, after)
}

// Compare returns how two JSON objects differ, sorted by path.
func Compare(old, now json.RawMessage) []hook.FieldChange {
	return changes(decodeObject(old), decodeObject(now))
}

func changes(old, now map[string]any) (all []hook.FieldChange) {
	for _, change := range object.Changes(old, now) {
		all = append(all, hook.FieldChange(change))
	}
	return all
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
