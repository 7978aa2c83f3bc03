package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
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

// storeResponses writes the status and the object, with the record.
func (w *objectWriter) storeResponses(ctx context.Context, applied []*trigger.Response) error {
	d := objectWrite{before: w.Stored, checkVersion: slices.ContainsFunc(applied, (*trigger.Response).ChangesObject)}
	if w.program.HandledStatusKey != "" && w.program.Resource.Status && !w.pruned.Load() {
		return w.storeStateWithStatus(ctx, applied, d)
	}
	if w.program.Resource.Status {
		var err error
		if d.status, err = w.storeStatus(ctx, w.statusPatch(applied), true); err != nil {
			return err
		}
	}
	return w.storeObject(ctx, applied, d)
}

// storeStateWithStatus writes the responses' changes of the object, and then its status with
// the record.
func (w *objectWriter) storeStateWithStatus(ctx context.Context, applied []*trigger.Response, d objectWrite) error {
	patch := w.contentPatch(applied)
	if patch != nil {
		if err := w.patchObject(ctx, patch, d.checkVersion); err != nil {
			return err
		}
	}
	status := w.statusPatch(applied)
	checkVersion := len(status) > 0
	text, differs := w.stateText(applied)
	// Removing our finalizer as the last one deletes the object, which needs no record then.
	deletes := w.Stored.Deleting() && len(w.Stored.Finalizers()) == 1 && !w.waitsForDaemon() && w.pass.Releases(applied)
	if differs = differs && !deletes; differs {
		_, records := lasthandled.Removal(w.Stored, w.program.FormerRecords)
		records = object.CombinePatches(records, map[string]any{w.program.HandledStatusKey: text})
		status = object.CombinePatches(status, map[string]any{lasthandled.StatusField: records})
	}
	var err error
	if d.status, err = w.storeStatus(ctx, status, checkVersion); err != nil {
		return err
	}
	if differs && text != nil && w.Stored.Field(w.rules.Record.InStatus()...) == nil {
		w.pruned.Store(true)
		w.Log.Warn("the schema prunes the field; handled state is stored in an annotation",
			"object", w.Stored.Ref().String(), "field", "status."+lasthandled.StatusField)
		return w.storeObject(ctx, applied, d)
	}
	if err := w.storeCleanup(ctx, applied); err != nil {
		return err
	}
	return w.recognizeServerChanges(applied, d, patch)
}

// storeCleanup removes the finalizer, and records in annotations, once the record is stored
// in the status.
func (w *objectWriter) storeCleanup(ctx context.Context, applied []*trigger.Response) error {
	metadata := map[string]any{}
	if len(w.rules.Record.ReadStatus(w.Stored)) > 0 {
		annotations, _ := lasthandled.Removal(w.Stored, w.program.FormerRecords)
		if w.Stored.Field(w.rules.Record.InAnnotation()...) != nil {
			annotations = object.CombinePatches(annotations, map[string]any{w.program.HandledAnnotation: nil})
		}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
	}
	remaining, released := w.pass.RemainingFinalizers(applied, w.waitsForDaemon())
	if released {
		metadata["finalizers"] = remaining
	}
	if len(metadata) == 0 {
		return nil
	}
	return w.patchObject(ctx, map[string]any{"metadata": metadata}, released)
}

// storeObject writes, in one request, what responses change in the object, the record, and the
// finalizer, but not the status.
func (w *objectWriter) storeObject(ctx context.Context, applied []*trigger.Response, d objectWrite) error {
	patch := w.contentPatch(applied)
	metadata := w.metadataPatch(applied)
	d.checkVersion = d.checkVersion || metadata["finalizers"] != nil
	if len(patch)+len(metadata) > 0 {
		if err := w.patchObject(ctx, object.CombinePatches(patch, map[string]any{"metadata": metadata}), d.checkVersion); err != nil {
			return err
		}
	}
	return w.recognizeServerChanges(applied, d, patch)
}

// metadataPatch returns the changes of metadata beside those of responses: the record and the
// finalizer.
func (w *objectWriter) metadataPatch(applied []*trigger.Response) map[string]any {
	metadata := map[string]any{}
	if text, differs := w.stateText(applied); differs {
		annotations, _ := lasthandled.Removal(w.Stored, w.program.FormerRecords)
		metadata["annotations"] = object.CombinePatches(annotations, map[string]any{w.program.HandledAnnotation: text})
	}
	if remaining, differ := w.pass.RemainingFinalizers(applied, w.waitsForDaemon()); differ {
		metadata["finalizers"] = remaining
	}
	return metadata
}

// storeResponse writes a response's changes of the object, and nothing else.
func (w *objectWriter) storeResponse(ctx context.Context, o *trigger.Response) error {
	applied := []*trigger.Response{o}
	if w.program.Resource.Status {
		if _, err := w.storeStatus(ctx, w.statusPatch(applied), true); err != nil {
			return err
		}
	}
	patch := w.contentPatch(applied)
	if patch == nil {
		return nil
	}
	return w.patchObject(ctx, patch, true)
}

// recognizeServerChanges compares what is stored with what was written.
func (w *objectWriter) recognizeServerChanges(applied []*trigger.Response, d objectWrite, patch map[string]any) error {
	if !d.checkVersion || !w.written {
		return nil
	}
	return w.pass.RecognizeServerChanges(applied, func() map[string]any {
		desired := object.DecodeOrEmpty(d.before.JSON())
		if d.status != nil {
			desired["status"] = d.status
		}
		return object.MergePatch(desired, patch)
	})
}

// stateText returns the record to store; nil removes it. It leaves out what is still pending.
func (w *objectWriter) stateText(applied []*trigger.Response) (text any, differs bool) {
	now := w.pass.StateWith(applied, w.dependents.appliedText())
	if maps.Equal(now, w.pass.Recorded) {
		return nil, false
	}
	if len(now) == 0 {
		return nil, true
	}
	return now.String(), true
}

// contentPatch returns what responses change in the object; nil if nothing. It includes the
// status if that is no subresource.
func (w *objectWriter) contentPatch(applied []*trigger.Response) map[string]any {
	var patch map[string]any
	for _, o := range applied {
		if o.Response.Patch != nil {
			patch = object.CombinePatches(patch, object.DecodeOrEmpty(o.Response.Patch))
		}
	}
	if !w.program.Resource.Status {
		if status := w.statusPatch(applied); len(status) > 0 {
			patch = object.CombinePatches(patch, map[string]any{"status": status})
		}
	}
	if len(patch) == 0 {
		return nil
	}
	if have := object.DecodeOrEmpty(w.Stored.JSON()); reflect.DeepEqual(have, object.MergePatch(have, patch)) {
		return nil
	}
	return patch
}

// statusPatch returns what responses change in the status, and the condition.
func (w *objectWriter) statusPatch(applied []*trigger.Response) map[string]any {
	var patch map[string]any
	var conditions []hook.Condition
	for _, o := range applied {
		if o.Response.Status != nil {
			patch = object.CombinePatches(patch, object.DecodeOrEmpty(o.Response.Status))
			// A handler that replaces the status must not change the records.
			delete(patch, lasthandled.StatusField)
		}
		if o.Response.Message != "" && w.program.Resource.Custom {
			patch = object.CombinePatches(patch, map[string]any{"message": o.Response.Message})
		}
		conditions = append(conditions, o.Response.Conditions...)
	}
	if own, says := w.condition(); says {
		conditions = append(conditions, own)
	}
	if len(conditions) == 0 {
		return patch
	}
	list, given := patch["conditions"].([]any)
	if !given {
		list, _ = object.DecodeOrEmpty(w.Stored.Field("status"))["conditions"].([]any)
	}
	return object.CombinePatches(patch, map[string]any{
		"conditions": plan.Conditions(list, conditions, w.Stored.Generation(), w.Now()),
	})
}

// condition returns the condition for the status. It returns false if the status cannot have
// conditions, by the schema, the object, or the responses, or if no handler has failed so far.
func (w *objectWriter) condition() (hook.Condition, bool) {
	if w.memory == nil {
		return hook.Condition{}, false
	}
	former, placed := w.currentCondition()
	hasNone := !w.program.Conditions && !w.memory.conditions && !placed
	if hasNone || former.Status == "False" && !w.ownsCondition(former) {
		return hook.Condition{}, false
	}
	now := hook.Condition{Type: trigger.ConditionHandled, Status: "True", Reason: trigger.ReasonHandled, Message: "no handler is failing"}
	if failed := w.memory.firstError(); failed != nil {
		now.Status, now.Reason, now.Message = "False", failed.Reason, w.signature()+failed.Message
	} else if w.memory.Throttle.IsActive() {
		now.Status, now.Reason, now.Message = "False", trigger.ReasonConflicting, w.signature()+w.memory.Throttle.Message
	} else if former.Status != "False" || slices.ContainsFunc(w.memory.Handlers, func(h *trigger.State) bool { return h.Entry().Failed }) {
		// A handler may keep a condition of this type itself, with a reason of its own. Of one that gave up in an earlier
		// process, only the condition has the error.
		return hook.Condition{}, false
	}
	return now, now != former
}

// ownsCondition reports whether this program set the existing condition. Two programs that
// overwrote each other's would never stop. A conflict ends for both programs at once, so
// either may clear it.
func (w *objectWriter) ownsCondition(former hook.Condition) bool {
	return strings.HasPrefix(former.Message, w.signature()) || w.resolved && former.Reason == trigger.ReasonConflicting
}

// signature returns the prefix of the program's condition messages.
func (w *objectWriter) signature() string { return w.program.Name + ": " }

// currentCondition returns the existing condition, and whether the status can have one:
// Setpoint writes conditions only to custom resources.
func (w *objectWriter) currentCondition() (former hook.Condition, placed bool) {
	var list []hook.Condition
	field := w.Stored.Field("status", "conditions")
	if field == nil || !w.program.Resource.Custom || json.Unmarshal(field, &list) != nil {
		return hook.Condition{}, false
	}
	for _, c := range list {
		if c.Type == trigger.ConditionHandled {
			former = c
		}
	}
	return former, true
}

// storeStatus patches the status if the patch changes it. It returns the intended status, nil if
// nothing was written.
func (w *objectWriter) storeStatus(ctx context.Context, patch map[string]any, checkVersion bool) (map[string]any, error) {
	if len(patch) == 0 {
		return nil, nil //nolint:nilnil // No status to write.
	}
	have := object.DecodeOrEmpty(w.Stored.Field("status"))
	want := object.MergePatch(have, patch)
	if reflect.DeepEqual(have, want) {
		return nil, nil //nolint:nilnil // No change to write.
	}
	err := w.sendPatch(ctx, apply.StatusPart, map[string]any{apply.StatusPart: patch}, checkVersion)
	return want, err
}

// patchObject patches the object, but not its status.
func (w *objectWriter) patchObject(ctx context.Context, patch map[string]any, checkVersion bool) error {
	part := ""
	if _, metadata := patch["metadata"]; metadata && len(patch) == 1 {
		part = "metadata"
	}
	return w.sendPatch(ctx, part, patch, checkVersion)
}

// sendPatch sends a patch of the object, or of a part of it. With checkVersion, the write fails
// if another client has written the object.
func (w *objectWriter) sendPatch(ctx context.Context, part string, patch map[string]any, checkVersion bool) error {
	subresource, what := "", "patch"
	if part == apply.StatusPart {
		subresource, what = part, "store the status of"
	}
	body, err := json.Marshal(object.CombinePatches(patch, map[string]any{"metadata": precondition(w.Stored, checkVersion)}))
	if err != nil {
		return err
	}
	began := w.Record.Now()
	stored, err := w.writer.Patch(ctx, w.program.Resource, w.Stored, body, subresource)
	w.Record.Wrote(began, w.program.Resource, record.Write{Verb: record.Patch, Part: part, Before: w.Stored, After: stored, Err: err})
	if apply.Conflict(err) {
		return controller.ErrConflict
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, w.Stored.Ref(), err)
	}
	w.setStored(stored)
	_, status := patch[apply.StatusPart]
	if o := w.writing; o != nil && (o.ChangesObject() || status && o.Call.Handler.WatchesStatus()) {
		w.pass.ChangeWritten(o.Call.Handler, patch)
	}
	return nil
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
func (w *objectWriter) setStored(stored *object.Object) {
	w.ObserveWrite(w.program.Resource, stored)
	w.Stored, w.written, w.stale = stored, true, true
	if w.writing != nil {
		w.writing.Base = stored
	}
	if w.memory != nil {
		w.pass.Wrote(stored)
	}
}

// notePruned notes and reports the fields of the status that the API server did not store although responses have set
// them. What another response sets or removes since is its matter.
func (w *objectWriter) notePruned(applied []*trigger.Response) {
	want := w.memory.prunedStatus
	for _, o := range applied {
		if o.Response.Status != nil {
			want = object.CombinePatches(want, object.DecodeOrEmpty(o.Response.Status))
		}
	}
	if want == nil {
		return
	}
	delete(want, lasthandled.StatusField)
	missing, field := object.Missing(want, object.DecodeOrEmpty(w.Stored.Field(apply.StatusPart)))
	w.memory.prunedStatus = missing
	if missing != nil && w.memory.prunedNext.IsZero() {
		w.memory.prunedNext = w.Now().Add(controller.PrunedRetry)
	}
	if missing == nil {
		w.memory.prunedNext = time.Time{}
	}
	w.ReportPruned(field)
}

// waitsForDaemon reports whether the object waits for a daemon to return. A deleted object
// does not wait for a stuck one.
func (w *objectWriter) waitsForDaemon() bool {
	return slices.ContainsFunc(w.memory.daemons, func(d *daemonState) bool {
		return d.running != nil && (!d.running.stuck || !w.Stored.Deleting())
	})
}
