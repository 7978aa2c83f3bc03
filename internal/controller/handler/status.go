package handler

import (
	"context"
	"reflect"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// storeStatus patches the status if the patch changes it. It returns the intended status, nil if
// nothing was written.
func (r *run) storeStatus(ctx context.Context, patch map[string]any, checkVersion bool) (map[string]any, error) {
	if len(patch) == 0 {
		return nil, nil //nolint:nilnil // No status to write.
	}
	have := decodeObject(r.Stored.Field("status"))
	want := object.MergePatch(have, patch)
	if reflect.DeepEqual(have, want) {
		return nil, nil //nolint:nilnil // No change to write.
	}
	err := r.sendPatch(ctx, statusPart, map[string]any{statusPart: patch}, checkVersion)
	return want, err
}

// precondition returns the metadata that limits a write to this object, or to this version of
// it.
func precondition(o *object.Object, checkVersion bool) map[string]any {
	metadata := map[string]any{"uid": o.UID()}
	if checkVersion {
		metadata["resourceVersion"] = o.ResourceVersion()
	}
	return metadata
}

// setStored replaces the stored object.
func (r *run) setStored(stored *object.Object) {
	r.ObserveWrite(r.program.Resource, stored)
	r.Stored, r.written, r.stale = stored, true, true
	if r.writing != nil {
		r.writing.base = stored
	}
	if !r.detached {
		r.memory.ownVersions = append(r.memory.ownVersions, stored.Version())
		r.memory.ownVersions = r.memory.ownVersions[max(0, len(r.memory.ownVersions)-maxEvents):]
	}
}

// statusPatch returns what responses change in the status, and the condition.
func (r *run) statusPatch(applied []*pendingResponse) map[string]any {
	var patch map[string]any
	var conditions []hook.Condition
	for _, o := range applied {
		if o.response.Status != nil {
			patch = object.CombinePatches(patch, decodeObject(o.response.Status))
			// A handler that replaces the status must not change the records.
			delete(patch, HandledStatusField)
		}
		if o.response.Message != "" && r.program.Resource.Custom {
			patch = object.CombinePatches(patch, map[string]any{"message": o.response.Message})
		}
		conditions = append(conditions, o.response.Conditions...)
	}
	if own, says := r.condition(); says {
		conditions = append(conditions, own)
	}
	if len(conditions) == 0 {
		return patch
	}
	list, given := patch["conditions"].([]any)
	if !given {
		list, _ = decodeObject(r.Stored.Field("status"))["conditions"].([]any)
	}
	return object.CombinePatches(patch, map[string]any{
		"conditions": plan.Conditions(list, conditions, r.Stored.Generation(), r.tools.Now()),
	})
}
