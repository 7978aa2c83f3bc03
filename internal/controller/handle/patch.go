package handle

import (
	"context"
	"encoding/json"
	"maps"
	"reflect"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// objectWrite is the object as it is to be.
type objectWrite struct {
	// before is the object before anything was stored, status the one it was to get;
	// nil if none was stored.
	before *object.Object
	status map[string]any
	// checkVersion says that nobody may have written to the object meanwhile.
	checkVersion bool
}

// storeObject writes, at once, all that answers change in the object but for its
// status, the record, and whether the object is kept.
func (r *run) storeObject(ctx context.Context, applied []*pendingResponse, d objectWrite) error {
	patch := r.contentPatch(applied)
	metadata := r.metadataPatch(applied)
	d.checkVersion = d.checkVersion || metadata["finalizers"] != nil
	if len(patch)+len(metadata) > 0 {
		metadata = combinePatches(metadata, precondition(r.stored, d.checkVersion))
		if err := r.patchObject(ctx, combinePatches(patch, map[string]any{"metadata": metadata})); err != nil {
			return err
		}
	}
	return r.recognizeServerChanges(applied, d, patch)
}

// metadataPatch are what is to be changed in the metadata beside what answers say: the
// record, and whether the object is kept.
func (r *run) metadataPatch(applied []*pendingResponse) map[string]any {
	metadata := map[string]any{}
	if text, differs := r.stateText(applied); differs {
		metadata["annotations"] = map[string]any{r.program.HandledAnnotation: text}
	}
	if r.removesFinalizer(applied) {
		metadata["finalizers"] = without(r.stored.Finalizers(), r.program.Finalizer)
	}
	return metadata
}

// storeResponse writes what an answer says of the object, and nothing else.
func (r *run) storeResponse(ctx context.Context, o *pendingResponse) error {
	applied := []*pendingResponse{o}
	if r.program.Resource.Status {
		if _, err := r.storeStatus(ctx, r.statusPatch(applied), true); err != nil {
			return err
		}
	}
	patch := r.contentPatch(applied)
	if patch == nil {
		return nil
	}
	return r.patchObject(ctx, combinePatches(patch, map[string]any{"metadata": precondition(r.stored, true)}))
}

// patchObject patches the object.
func (r *run) patchObject(ctx context.Context, patch map[string]any) error {
	body, err := json.Marshal(patch)
	if err != nil {
		return err
	}
	began := r.record.Now()
	stored, err := r.tools.Writer.Patch(ctx, r.program.Resource, r.stored, body)
	r.record.Wrote(began, record.Write{Verb: record.Patch, Resource: r.program.Resource, Part: patchedPart(patch), Before: r.stored, After: stored, Err: err})
	if err != nil {
		return r.statusError("patch", err)
	}
	r.setStored(stored)
	return nil
}

// patchedPart says that a patch is about the metadata alone.
func patchedPart(patch map[string]any) string {
	if _, metadata := patch["metadata"]; metadata && len(patch) == 1 {
		return "metadata"
	}
	return ""
}

// contentPatch is what answers change in the object, if it makes a difference;
// where the status is no subresource, that too.
func (r *run) contentPatch(applied []*pendingResponse) map[string]any {
	var patch map[string]any
	for _, o := range applied {
		if o.response.Patch != nil {
			patch = combinePatches(patch, decodeObject(o.response.Patch))
		}
	}
	if !r.program.Resource.Status {
		if status := r.statusPatch(applied); len(status) > 0 {
			patch = combinePatches(patch, map[string]any{"status": status})
		}
	}
	if len(patch) == 0 {
		return nil
	}
	if have := decodeObject(r.stored.JSON()); reflect.DeepEqual(have, mergePatch(have, patch)) {
		return nil
	}
	return patch
}

// stateText is the record as it is to be; nil removes it. What is still owed is
// no part of it.
func (r *run) stateText(applied []*pendingResponse) (text any, differs bool) {
	now := r.storedState.withPending(&r.program, r.memory, func(i int) bool { return !r.memory.hasPending(i, applied) })
	if maps.Equal(now, r.storedState) {
		return nil, false
	}
	if len(now) == 0 {
		return nil, true
	}
	return now.String(), true
}

// recognizeServerChanges remembers, where the server stored something else than was
// written, that what is there is what was seen. Nobody else can have written it:
// the version said so.
func (r *run) recognizeServerChanges(applied []*pendingResponse, d objectWrite, patch map[string]any) error {
	if !d.checkVersion || !r.written {
		return nil
	}
	stored, known := r.watchedDigestsOf(r.stored), r.currentState()
	as := func(o *pendingResponse) bool {
		return known[r.program.Handlers[o.call.handler].Name].Digest == stored[o.call.handler]
	}
	if !slices.ContainsFunc(applied, func(o *pendingResponse) bool { return o.changesObject() && !as(o) }) {
		return nil
	}
	want, err := r.desiredDigests(d, patch)
	if err != nil {
		return err
	}
	for _, one := range applied {
		i := one.call.handler
		e := known[r.program.Handlers[i].Name]
		if one.changesObject() && e.Digest == want[i] && stored[i] != want[i] {
			m := &r.memory.handlers[i]
			m.serverDigest.recorded, m.serverDigest.actual = want[i], stored[i]
		}
	}
	return nil
}

// desiredDigests are the digests of what the handlers watch of the object as it was
// to be.
func (r *run) desiredDigests(d objectWrite, patch map[string]any) ([]string, error) {
	desired := decodeObject(d.before.JSON())
	if d.status != nil {
		desired["status"] = d.status
	}
	o, err := newObject(mergePatch(desired, patch))
	if err != nil {
		return nil, err
	}
	return r.program.watchedDigests(o), nil
}
