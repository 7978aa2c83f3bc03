package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// objectWrite describes a write of the object.
type objectWrite struct {
	// before is the object before the first write, status the intended status; nil if none was
	// stored.
	before *object.Object
	status map[string]any
	// checkVersion makes the write fail if another client has written the object.
	checkVersion bool
}

// storeObject writes, in one request, what responses change in the object, the record, and the
// finalizer, but not the status.
func (r *run) storeObject(ctx context.Context, applied []*pendingResponse, d objectWrite) error {
	patch := r.contentPatch(applied)
	metadata := r.metadataPatch(applied)
	d.checkVersion = d.checkVersion || metadata["finalizers"] != nil
	if len(patch)+len(metadata) > 0 {
		if err := r.patchObject(ctx, object.CombinePatches(patch, map[string]any{"metadata": metadata}), d.checkVersion); err != nil {
			return err
		}
	}
	return r.recognizeServerChanges(applied, d, patch)
}

// metadataPatch returns the changes of metadata beside those of responses: the record and the
// finalizer.
func (r *run) metadataPatch(applied []*pendingResponse) map[string]any {
	metadata := map[string]any{}
	if text, differs := r.stateText(applied); differs {
		annotations, _ := r.program.removedRecords(r.Stored)
		metadata["annotations"] = object.CombinePatches(annotations, map[string]any{r.program.HandledAnnotation: text})
	}
	if remaining, differ := r.remainingFinalizers(applied); differ {
		metadata["finalizers"] = remaining
	}
	return metadata
}

// storeResponse writes a response's changes of the object, and nothing else.
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
	return r.patchObject(ctx, patch, true)
}

// patchObject patches the object, but not its status.
func (r *run) patchObject(ctx context.Context, patch map[string]any, checkVersion bool) error {
	part := ""
	if _, metadata := patch["metadata"]; metadata && len(patch) == 1 {
		part = "metadata"
	}
	return r.sendPatch(ctx, part, patch, checkVersion)
}

// statusPart is the part of the object that has requests of its own.
const statusPart = "status"

// sendPatch sends a patch of the object, or of a part of it. With checkVersion, the write fails
// if another client has written the object.
func (r *run) sendPatch(ctx context.Context, part string, patch map[string]any, checkVersion bool) error {
	send, what := r.writer().Patch, "patch"
	if part == statusPart {
		send, what = r.writer().PatchStatus, "store the status of"
	}
	body, err := json.Marshal(object.CombinePatches(patch, map[string]any{"metadata": precondition(r.Stored, checkVersion)}))
	if err != nil {
		return err
	}
	began := r.Record.Now()
	stored, err := send(ctx, r.program.Resource, r.Stored, body)
	r.Record.Wrote(began, record.Write{Verb: record.Patch, Resource: r.program.Resource, Part: part, Before: r.Stored, After: stored,
		Err: err})
	if apply.Conflict(err) {
		return controller.ErrConflict
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, r.Stored.Ref(), err)
	}
	r.setStored(stored)
	r.partWritten(patch)
	return nil
}

// contentPatch returns what responses change in the object; nil if nothing. It includes the
// status if that is no subresource.
func (r *run) contentPatch(applied []*pendingResponse) map[string]any {
	var patch map[string]any
	for _, o := range applied {
		if o.response.Patch != nil {
			patch = object.CombinePatches(patch, decodeObject(o.response.Patch))
		}
	}
	if !r.program.Resource.Status {
		if status := r.statusPatch(applied); len(status) > 0 {
			patch = object.CombinePatches(patch, map[string]any{"status": status})
		}
	}
	if len(patch) == 0 {
		return nil
	}
	if have := decodeObject(r.Stored.JSON()); reflect.DeepEqual(have, object.MergePatch(have, patch)) {
		return nil
	}
	return patch
}

// stateText returns the record to store; nil removes it. It leaves out what is still pending.
func (r *run) stateText(applied []*pendingResponse) (text any, differs bool) {
	now := r.stateWith(applied)
	if maps.Equal(now, r.storedState) {
		return nil, false
	}
	if len(now) == 0 {
		return nil, true
	}
	return now.String(), true
}

// recognizeServerChanges handles an API server that stores something else than was written,
// such as defaults. The stored state counts as handled: the resource version excludes writes
// of other clients.
func (r *run) recognizeServerChanges(applied []*pendingResponse, d objectWrite, patch map[string]any) error {
	if !d.checkVersion || !r.written {
		return nil
	}
	var want []string
	for i, stored := range r.watchedDigestsOf(r.Stored) {
		h := r.memory.handlers[i]
		changed := slices.ContainsFunc(applied, func(o *pendingResponse) bool { return o.call.handler == h && o.changesObject() })
		e := r.writtenEntry(h, applied)
		recorded := e.latestDigest()
		if !changed || recorded == stored {
			continue
		}
		if want == nil {
			var err error
			if want, err = r.desiredDigests(d, patch); err != nil {
				return err
			}
		}
		if recorded == want[i] {
			h.serverDigest.recorded, h.serverDigest.actual = recorded, stored
		}
	}
	return nil
}

// desiredDigests returns the digests of the watched fields of the intended object.
func (r *run) desiredDigests(d objectWrite, patch map[string]any) ([]string, error) {
	desired := decodeObject(d.before.JSON())
	if d.status != nil {
		desired["status"] = d.status
	}
	o, err := object.Encode(object.MergePatch(desired, patch))
	if err != nil {
		return nil, err
	}
	return r.program.watchedDigests(o), nil
}
