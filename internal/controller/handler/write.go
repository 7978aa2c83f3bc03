package handler

import (
	"context"
	"encoding/json"
	"errors"
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
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// writePending writes the pending responses of earlier runs, except those of handlers that are
// about to be called for something newer.
func (r *run) writePending(ctx context.Context) error {
	if !r.StillExists() {
		return errGone
	}
	for _, o := range slices.Clone(r.memory.Responses) {
		if o.Call.Reason != hook.ReasonEvent && r.pass.Due.CallsNow(o.Call.Handler) {
			continue
		}
		if r.pass.DropOutdated(o) {
			r.Log.Debug("conflict: object changed concurrently; calling the handler again", "object", r.Stored.Ref().String(),
				"handler", o.Call.Handler.Name)
			continue
		}
		if err := r.writeResponse(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// writeResponse writes a response: it deletes and applies objects first, then the status and the object. The write with
// the record is the last, so that the record never claims what was not written. A rejected write is a failure of this
// handler only. Without a response it writes the remaining changes of the record, the condition and the finalizer.
func (r *run) writeResponse(ctx context.Context, o *trigger.Response) error {
	if !r.StillExists() {
		return errGone
	}
	done := o == nil || r.applyOwned(ctx, o)
	r.pass.OwnedWritten(r.dependents.ownedDigest())
	// Failed writes and a record that is removed repeatedly wait, unless a handler just responded.
	wait := trigger.Latest(r.memory.writeAttempt.Next, r.memory.stateRemovals.Next)
	if o != nil {
		wait = trigger.Latest(wait, o.Attempt.Next)
	}
	responded := o != nil && o.Fresh && o.Attempt.Count == 0
	if !done || !responded && wait.After(r.Now()) && !r.pass.RetriesWrites() {
		return r.refresh(ctx)
	}
	before := r.Stored
	err := r.object.store(ctx, o)
	switch {
	case err == nil:
		r.object.notePruned(o)
		if large := r.pass.Unstored; len(large) > 0 {
			r.SendOnce(hook.Event{Type: controller.Warning, Reason: trigger.ReasonPreviousStateNotStored,
				Message: "the watched fields are too large for the record, so the previous state is unknown after a restart; " +
					"watch fewer fields in " + strings.Join(large, ", ")})
		}
		r.memory.writeAttempt = trigger.Attempt{}
		r.pass.Written(o, before, r.object.sent)
		if o != nil {
			r.SendEvents(o.Response.Events)
		}
	case o != nil && o.ChangesObject() && apply.Rejected(err):
		r.writeFailed(o, err)
	default:
		return r.writeError(ctx, err)
	}
	return r.refresh(ctx)
}

// writeFailed records a failed write as one of the handler, to be repeated without another call.
func (r *run) writeFailed(o *trigger.Response, err error) {
	o.Attempt.Failed(r.Now(), r.QueueOptions.Random)
	r.recordError(o.Call.Handler, failure.WithReason(controller.ReasonWriteFailed,
		fmt.Errorf("handler %s: %w", o.Call.Handler.Title(), err)))
}

func (r *run) writeError(ctx context.Context, err error) error {
	switch {
	case apply.NotFound(err):
		return errGone
	case errors.Is(err, controller.ErrConflict):
		return controller.ErrConflict
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return failure.WithReason(controller.ReasonWriteFailed, err)
}

func (r *run) refresh(ctx context.Context) error {
	if r.object.stale || r.dependents.stale {
		r.observe()
	}
	return ctx.Err()
}

func (r *run) updateThrottle() {
	starts, ends := r.pass.CountRun(r.object.written || r.dependents.written)
	switch {
	case ends:
		r.object.resolved = true
		r.Log.Info("conflict resolved; object no longer throttled", "object", r.Stored.Ref().String())
		r.SendEvent(hook.Event{Type: controller.Normal, Reason: trigger.ReasonConflictResolved, Message: "handlers of " + r.program.Name +
			" are no longer throttled"})
	case starts:
		message := r.Secrets.Text(r.pass.ConflictMessage())
		r.memory.Throttle.Message = message
		r.Log.Warn("object throttled", "object", r.Stored.Ref().String(), "reason", trigger.ReasonConflicting, "message", message)
		r.SendEvent(hook.Event{Type: controller.Warning, Reason: trigger.ReasonConflicting, Message: message})
	}
}

// retryPruned writes the fields of the status again that the API server did not store, in case that the schema of the
// kind has them now: no handler is called for that.
func (r *run) retryPruned(ctx context.Context) error {
	if r.memory.prunedStatus == nil || r.memory.prunedNext.After(r.Now()) && !r.pass.RetriesCalls() {
		return nil
	}
	r.memory.prunedNext = r.Now().Add(controller.PrunedRetry)
	store, patch := r.object.storeStatus, r.memory.prunedStatus
	if !r.program.Resource.Status {
		store, patch = r.object.patchObject, map[string]any{apply.StatusPart: patch}
	}
	if err := store(ctx, patch, true); err != nil {
		return r.writeError(ctx, err)
	}
	r.object.notePruned(nil)
	return r.refresh(ctx)
}

// evictionRetryDelay is the delay after a refused eviction. A refusal is not a failure.
const evictionRetryDelay = 2 * time.Second

// evictionEventDelay is how long budgets refuse evictions before Setpoint sends an event. A
// budget that allows one pod at a time refuses often, for a moment.
const evictionEventDelay = 10 * time.Second

// applyOwned deletes and applies the objects of a response and reports whether all is done. It
// retries with backoff, without another call of the handler.
func (r *run) applyOwned(ctx context.Context, o *trigger.Response) bool {
	now := r.Now()
	switch {
	case o.Applied:
		return true
	case !o.Fresh && o.Attempt.Next.After(now) && !r.pass.RetriesWrites():
		return false
	}
	err := r.dependents.applyResponse(ctx, o)
	if r.dry != nil {
		r.dry.notApplied = err
	}
	switch {
	case err == nil:
		if o.Attempt.Count > 0 {
			o.Call.Handler.Failed = nil
		}
		o.Attempt = trigger.Attempt{}
		delete(r.memory.evictions, o.Call.Handler)
		return true
	case ctx.Err() != nil:
	case errors.Is(err, errEvictionRefused):
		o.Attempt.Next = now.Add(evictionRetryDelay)
		r.reportRefusedEviction(o.Call.Handler, err)
	case hook.IsTerminal(err): // It can never be applied.
		r.pass.TakeBack(o)
		r.pass.GiveUp(o.Call, err)
	default:
		r.writeFailed(o, err)
	}
	return false
}

// reportRefusedEviction sends one event when budgets have refused for long, also if the
// handler was called again meanwhile.
func (r *run) reportRefusedEviction(h *trigger.State, err error) {
	wait, now := r.memory.evictions[h], r.Now()
	switch {
	case wait.since.IsZero():
		wait.since = now
		if r.memory.evictions == nil {
			r.memory.evictions = map[*trigger.State]evictionWait{}
		}
	case !wait.reported && now.Sub(wait.since) >= evictionEventDelay:
		wait.reported = true
		message := failure.OneLine(err)
		r.Log.Warn("eviction refused", "object", r.Stored.Ref().String(), "error", message)
		r.SendEvent(hook.Event{Type: controller.Warning, Reason: trigger.ReasonEvictionRefused, Message: message})
	}
	r.memory.evictions[h] = wait
}

// store writes what a response changes in the status and in the object, with the record, the condition and the finalizer; nil
// if only these remain. A detached write has none of them. Where the record is in the status, it comes after the change of
// the object, else with it: it never claims what was not written.
func (w *objectWriter) store(ctx context.Context, o *trigger.Response) error {
	w.writing, w.sent = o, nil
	defer func() { w.writing = nil }()
	content, changes := w.contentPatch(o), o != nil && o.ChangesObject()
	inStatus := w.pass != nil && w.program.Record.StatusKey != "" && w.program.Resource.Status && !w.pruned.Load()
	if inStatus {
		if err := w.patchObject(ctx, content, changes); err != nil {
			return err
		}
		content = nil
	}
	if w.program.Resource.Status {
		status, text := w.statusPatch(o), any(nil)
		checkVersion := len(status) > 0
		if inStatus {
			status, text = w.addRecord(status, o)
		}
		if err := w.storeStatus(ctx, status, checkVersion); err != nil {
			return err
		}
		if text != nil && w.Stored.Field(w.rules.Record.InStatus()...) == nil {
			w.pruned.Store(true)
			inStatus = false
			w.Log.Warn("the schema prunes the field; handled state is stored in an annotation",
				"object", w.Stored.Ref().String(), "field", "status."+lasthandled.StatusField)
		}
	}
	if w.pass == nil {
		return w.patchObject(ctx, content, changes)
	}
	metadata := w.metadataPatch(o, inStatus)
	if len(metadata) > 0 {
		content = object.CombinePatches(content, map[string]any{"metadata": metadata})
	}
	return w.patchObject(ctx, content, metadata["finalizers"] != nil || changes && !inStatus)
}

// addRecord adds the record to a patch of the status, if it differs, and returns it. Removing our finalizer as the last one
// deletes the object, which needs no record then.
func (w *objectWriter) addRecord(status map[string]any, o *trigger.Response) (patch map[string]any, text any) {
	text, differs := w.recordText(o)
	if !differs || w.Stored.Deleting() && len(w.Stored.Finalizers()) == 1 && !w.waitsForDaemon() && w.pass.Releases(o) {
		return status, nil
	}
	_, records := lasthandled.Removal(w.Stored, w.program.PreviousRecords)
	records = object.CombinePatches(records, map[string]any{w.program.Record.StatusKey: text})
	return object.CombinePatches(status, map[string]any{lasthandled.StatusField: records}), text
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
	_, applied := w.dependents.drifting()
	now := w.pass.StateWith(o, applied)
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
func (w *objectWriter) condition() (now hook.Condition, says bool) {
	if w.pass == nil {
		return now, false
	}
	// Setpoint writes conditions only to custom resources.
	var list []hook.Condition
	field := w.Stored.Field("status", "conditions")
	placed := field != nil && w.program.Resource.Custom && json.Unmarshal(field, &list) == nil
	var previous hook.Condition
	for _, c := range list {
		if placed && c.Type == trigger.ConditionHandled {
			previous = c
		}
	}
	// Two programs that overwrote each other's condition would never stop. A conflict ends for both at once, so either may
	// clear it.
	signature := w.program.Name + ": "
	owned := strings.HasPrefix(previous.Message, signature) || w.resolved && previous.Reason == trigger.ReasonConflicting
	if !w.program.Conditions && !w.memory.conditions && !placed || previous.Status == "False" && !owned {
		return now, false
	}
	now = hook.Condition{Type: trigger.ConditionHandled, Status: "True", Reason: trigger.ReasonHandled, Message: "no handler is failing"}
	gaveUp := slices.ContainsFunc(w.memory.Handlers, func(h *trigger.State) bool { return h.Entry().Failed })
	switch failed := w.memory.firstError(); {
	case failed != nil:
		now.Status, now.Reason, now.Message = "False", failed.Reason, signature+failed.Message
	case w.memory.Throttle.IsActive():
		now.Status, now.Reason, now.Message = "False", trigger.ReasonConflicting, signature+w.memory.Throttle.Message
	case previous.Status != "False" || gaveUp:
		// A handler may keep a condition of this type itself, with a reason of its own. Of one that gave up in an earlier
		// process, only the condition has the error.
		return now, false
	}
	return now, now != previous
}

func (w *objectWriter) storeStatus(ctx context.Context, patch map[string]any, checkVersion bool) error {
	if len(patch) == 0 {
		return nil
	}
	if have := object.DecodeOrEmpty(w.Stored.Field(apply.StatusPart)); reflect.DeepEqual(have, object.MergePatch(have, patch)) {
		return nil
	}
	return w.sendPatch(ctx, apply.StatusPart, map[string]any{apply.StatusPart: patch}, checkVersion)
}

func (w *objectWriter) patchObject(ctx context.Context, patch map[string]any, checkVersion bool) error {
	if len(patch) == 0 {
		return nil
	}
	part := ""
	if patch["metadata"] != nil && len(patch) == 1 {
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
