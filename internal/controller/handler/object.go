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

// store writes what a response changes in the status and in the object, with the record, the condition and the finalizer; nil
// if only these remain. A detached write has none of them. Where the record is in the status, it comes after the change of
// the object, else with it: it never claims what was not written.
func (w *objectWriter) store(ctx context.Context, o *trigger.Response) error {
	changes := o != nil && o.ChangesObject()
	w.writing, w.sent = o, nil
	defer func() { w.writing = nil }()
	content := w.contentPatch(o)
	inStatus := w.pass != nil && w.program.Record.StatusKey != "" && w.program.Resource.Status && !w.pruned.Load()
	if inStatus {
		if err := w.patchObject(ctx, content, changes); err != nil {
			return err
		}
		content = nil
	}
	if w.program.Resource.Status {
		var err error
		if inStatus, err = w.storeStatusOf(ctx, o, inStatus); err != nil {
			return err
		}
	}
	if w.pass == nil {
		return w.patchObject(ctx, content, changes)
	}
	metadata := w.metadataPatch(o, inStatus)
	if len(metadata) > 0 {
		content = object.CombinePatches(content, map[string]any{"metadata": metadata})
	}
	if err := w.patchObject(ctx, content, metadata["finalizers"] != nil || changes && !inStatus); err != nil {
		return err
	}
	return nil
}

// storeStatusOf writes what a response changes in the status, with the record or without. It reports whether the status is
// where the record is.
func (w *objectWriter) storeStatusOf(ctx context.Context, o *trigger.Response, withRecord bool) (inStatus bool, err error) {
	status := w.statusPatch(o)
	checkVersion := len(status) > 0
	if !withRecord {
		return false, w.storeStatus(ctx, status, checkVersion)
	}
	text, differs := w.recordText(o)
	// Removing our finalizer as the last one deletes the object, which needs no record then.
	deletes := w.Stored.Deleting() && len(w.Stored.Finalizers()) == 1 && !w.waitsForDaemon() && w.pass.Releases(o)
	if differs = differs && !deletes; differs {
		_, records := lasthandled.Removal(w.Stored, w.program.PreviousRecords)
		records = object.CombinePatches(records, map[string]any{w.program.Record.StatusKey: text})
		status = object.CombinePatches(status, map[string]any{lasthandled.StatusField: records})
	}
	if err := w.storeStatus(ctx, status, checkVersion); err != nil {
		return true, err
	}
	if differs && text != nil && w.Stored.Field(w.rules.Record.InStatus()...) == nil {
		w.pruned.Store(true)
		w.Log.Warn("the schema prunes the field; handled state is stored in an annotation",
			"object", w.Stored.Ref().String(), "field", "status."+lasthandled.StatusField)
		return false, nil
	}
	return true, nil
}

// metadataPatch returns the changes of metadata beside those of a response: the finalizer, and the record or, once it is in
// the status, the removal of those in annotations.
func (w *objectWriter) metadataPatch(o *trigger.Response, inStatus bool) map[string]any {
	metadata := map[string]any{}
	text, differs := any(nil), len(w.rules.Record.ReadStatus(w.Stored)) > 0
	if !inStatus {
		text, differs = w.recordText(o)
	}
	if differs {
		annotations, _ := lasthandled.Removal(w.Stored, w.program.PreviousRecords)
		if text != nil || w.Stored.Field(w.rules.Record.InAnnotation()...) != nil {
			annotations = object.CombinePatches(annotations, map[string]any{w.program.Record.Annotation: text})
		}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
	}
	if remaining, differ := w.pass.RemainingFinalizers(o, w.waitsForDaemon()); differ {
		metadata["finalizers"] = remaining
	}
	return metadata
}

// recordText returns the record to store; nil removes it. It leaves out what is still pending.
func (w *objectWriter) recordText(o *trigger.Response) (text any, differs bool) {
	now := w.pass.StateWith(o, w.dependents.appliedText())
	if len(now) > 0 {
		text = now.String()
	}
	return text, !maps.Equal(now, w.pass.Recorded)
}

// contentPatch returns what a response changes in the object; nil if nothing. It includes the status if that is no
// subresource.
func (w *objectWriter) contentPatch(o *trigger.Response) map[string]any {
	var patch map[string]any
	if o != nil && o.Response.Patch != nil {
		patch = object.DecodeOrEmpty(o.Response.Patch)
	}
	if !w.program.Resource.Status {
		if status := w.statusPatch(o); len(status) > 0 {
			patch = object.CombinePatches(patch, map[string]any{apply.StatusPart: status})
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

func (w *objectWriter) statusPatch(o *trigger.Response) map[string]any {
	var patch map[string]any
	var conditions []hook.Condition
	if o != nil {
		if o.Response.Status != nil {
			patch = object.DecodeOrEmpty(o.Response.Status)
			delete(patch, lasthandled.StatusField) // A handler that replaces the status must not change the records.
		}
		if o.Response.Message != "" && w.program.Resource.Custom {
			patch = object.CombinePatches(patch, map[string]any{"message": o.Response.Message})
		}
		conditions = slices.Clip(o.Response.Conditions)
	}
	if own, says := w.condition(); says {
		conditions = append(conditions, own)
	}
	if len(conditions) == 0 {
		return patch
	}
	list, given := patch["conditions"].([]any)
	if !given {
		list, _ = object.DecodeOrEmpty(w.Stored.Field(apply.StatusPart))["conditions"].([]any)
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
	previous, placed := w.currentCondition()
	hasNone := !w.program.Conditions && !w.memory.conditions && !placed
	if hasNone || previous.Status == "False" && !w.ownsCondition(previous) {
		return hook.Condition{}, false
	}
	now := hook.Condition{Type: trigger.ConditionHandled, Status: "True", Reason: trigger.ReasonHandled, Message: "no handler is failing"}
	gaveUp := slices.ContainsFunc(w.memory.Handlers, func(h *trigger.State) bool { return h.Entry().Failed })
	switch failed := w.memory.firstError(); {
	case failed != nil:
		now.Status, now.Reason, now.Message = "False", failed.Reason, w.signature()+failed.Message
	case w.memory.Throttle.IsActive():
		now.Status, now.Reason, now.Message = "False", trigger.ReasonConflicting, w.signature()+w.memory.Throttle.Message
	case previous.Status != "False" || gaveUp:
		// A handler may keep a condition of this type itself, with a reason of its own. Of one that gave up in an earlier
		// process, only the condition has the error.
		return hook.Condition{}, false
	}
	return now, now != previous
}

// ownsCondition reports whether this program set the existing condition. Two programs that overwrote each other's would
// never stop. A conflict ends for both programs at once, so either may clear it.
func (w *objectWriter) ownsCondition(previous hook.Condition) bool {
	return strings.HasPrefix(previous.Message, w.signature()) || w.resolved && previous.Reason == trigger.ReasonConflicting
}

// signature returns the prefix of the program's condition messages.
func (w *objectWriter) signature() string { return w.program.Name + ": " }

// currentCondition returns the existing condition, and whether the status can have one:
// Setpoint writes conditions only to custom resources.
func (w *objectWriter) currentCondition() (previous hook.Condition, placed bool) {
	var list []hook.Condition
	field := w.Stored.Field("status", "conditions")
	if field == nil || !w.program.Resource.Custom || json.Unmarshal(field, &list) != nil {
		return hook.Condition{}, false
	}
	for _, c := range list {
		if c.Type == trigger.ConditionHandled {
			previous = c
		}
	}
	return previous, true
}

// storeStatus patches the status if the patch changes it.
func (w *objectWriter) storeStatus(ctx context.Context, patch map[string]any, checkVersion bool) error {
	if len(patch) == 0 {
		return nil
	}
	if have := object.DecodeOrEmpty(w.Stored.Field(apply.StatusPart)); reflect.DeepEqual(have, object.MergePatch(have, patch)) {
		return nil
	}
	return w.sendPatch(ctx, apply.StatusPart, map[string]any{apply.StatusPart: patch}, checkVersion)
}

// patchObject patches the object, but not its status, if there is a patch.
func (w *objectWriter) patchObject(ctx context.Context, patch map[string]any, checkVersion bool) error {
	part := ""
	if _, metadata := patch["metadata"]; metadata && len(patch) == 1 {
		part = "metadata"
	}
	if len(patch) == 0 {
		return nil
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
	body, err := encodePatch(w.Stored, patch, checkVersion)
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
	w.sent = object.CombinePatches(w.sent, patch)
	w.setStored(stored, patch)
	return nil
}

// encodePatch returns a patch that is limited to this object, or to this version of it.
func encodePatch(o *object.Object, patch map[string]any, checkVersion bool) ([]byte, error) {
	precondition := map[string]any{"uid": o.UID()}
	if checkVersion {
		precondition["resourceVersion"] = o.ResourceVersion()
	}
	return json.Marshal(object.CombinePatches(patch, map[string]any{"metadata": precondition}))
}

func (w *objectWriter) setStored(stored *object.Object, patch map[string]any) {
	w.ObserveWrite(w.program.Resource, stored)
	w.Stored, w.written, w.stale = stored, true, true
	if w.pass != nil {
		w.pass.Wrote(stored, w.writing, patch)
	}
}

// notePruned notes and reports the fields of the status that the API server did not store although responses have set
// them. What another response sets or removes since is its matter.
func (w *objectWriter) notePruned(o *trigger.Response) {
	want := w.memory.prunedStatus
	if o != nil && o.Response.Status != nil {
		want = object.CombinePatches(want, object.DecodeOrEmpty(o.Response.Status))
	}
	if want == nil {
		return
	}
	delete(want, lasthandled.StatusField)
	missing, field := object.Missing(want, object.DecodeOrEmpty(w.Stored.Field(apply.StatusPart)))
	w.memory.prunedStatus = missing
	switch {
	case missing == nil:
		w.memory.prunedNext = time.Time{}
	case w.memory.prunedNext.IsZero():
		w.memory.prunedNext = w.Now().Add(controller.PrunedRetry)
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
