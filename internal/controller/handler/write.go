package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"reflect"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// errGone ends a run whose object was deleted. The watch delivers the deletion soon.
var errGone = errors.New("the object is gone")

// writePending writes the pending responses of earlier runs, except those of handlers that are
// about to be called for something newer.
func (r *run) writePending(ctx context.Context) error {
	if !r.StillExists() {
		return r.dropPending()
	}
	for _, o := range slices.Clone(r.memory.Responses) {
		if o.Call.Reason != hook.ReasonEvent && r.pass.Due.Calls.Includes(o.Call.Handler) {
			continue
		}
		if r.pass.HasConflict(o) {
			r.pass.CallAgain(o)
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

// writeResponse writes a response: it deletes and applies objects first, then the status and
// the object. The write with the record is the last, so that the record never claims what was
// not written. A rejected write is a failure of this handler only. Without a response it writes the
// remaining changes of the record, the condition and the finalizer.
func (r *run) writeResponse(ctx context.Context, o *trigger.Response) error {
	if !r.StillExists() {
		return r.dropPending()
	}
	if o != nil && !r.apply(ctx, o) || !r.mayWrite(o) {
		r.noteOwnedWritten()
		return r.refresh(ctx)
	}
	var applied []*trigger.Response
	if o != nil {
		applied = append(applied, o)
	}
	r.object.writing = o
	err := r.store(ctx, applied)
	r.object.writing = nil
	switch {
	case err == nil:
		r.responsesWritten(ctx, applied)
	case o != nil && o.ChangesObject() && apply.Rejected(err):
		o.Attempt.Failed(r.tools.Now(), r.tools.Queue.Random)
		r.recordError(o.Call.Handler, failure.WithReason(controller.ReasonWriteFailed,
			fmt.Errorf("handler %s: %w", o.Call.Handler.Title(), err)))
	default:
		return r.writeError(ctx, err)
	}
	return r.refresh(ctx)
}

// writeError returns the error of a run after a failed write.
func (r *run) writeError(ctx context.Context, err error) error {
	switch {
	case apply.NotFound(err):
		return r.dropPending()
	case errors.Is(err, controller.ErrConflict):
		return controller.ErrConflict
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return failure.WithReason(controller.ReasonWriteFailed, err)
}

// dropPending drops the pending writes of a deleted object.
func (r *run) dropPending() error {
	r.memory.Responses = nil
	return errGone
}

// refresh observes the object again after our writes.
func (r *run) refresh(ctx context.Context) error {
	if r.object.stale || r.dependents.stale {
		r.observe()
	}
	return ctx.Err()
}

// mayWrite reports whether to write the object now: failed writes and a record that is removed
// repeatedly wait, unless a handler just responded.
func (r *run) mayWrite(o *trigger.Response) bool {
	wait := trigger.Latest(r.memory.writeAttempt.Next, r.memory.stateRemovals.Next)
	if o != nil {
		wait = trigger.Latest(wait, o.Attempt.Next)
	}
	return o != nil && o.Fresh && o.Attempt.Count == 0 || r.pass.RetriesWrites() || !wait.After(r.tools.Now())
}

// store writes what responses change in the object.
func (r *run) store(ctx context.Context, applied []*trigger.Response) error {
	r.noteOwnedWritten()
	if err := r.previousStates().store(ctx, applied); err != nil {
		return err
	}
	if err := r.object.storeResponses(ctx, applied); err != nil {
		return err
	}
	r.object.notePruned(applied)
	return nil
}

// objectWriter writes the handled object: what responses change in it, the record, the condition and the finalizer.
type objectWriter struct {
	*Controller
	*controller.Run

	writer     writer
	dependents *dependents
	// pass and memory are nil for a write outside of the worker of the object, which has no record.
	pass   *trigger.Pass
	memory *memory
	// writing is the response in progress.
	writing *trigger.Response
	// written means that the object was written, and stale that it was since it was observed.
	written, stale bool
	// resolved means that a conflict ended.
	resolved bool
}

// storeResponses writes the status and the object, with the record.
func (w *objectWriter) storeResponses(ctx context.Context, applied []*trigger.Response) error {
	checkVersion := slices.ContainsFunc(applied, (*trigger.Response).ChangesObject)
	d := objectWrite{before: w.Stored, checkVersion: checkVersion}
	if w.storesStateInStatus() {
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

// responsesWritten updates the memory after responses were written completely.
func (r *run) responsesWritten(ctx context.Context, applied []*trigger.Response) {
	r.memory.writeAttempt = trigger.Attempt{}
	if r.object.written {
		defer r.previousStates().prune(ctx)
	}
	r.pass.ResponsesWritten(applied)
	for _, o := range applied {
		for _, event := range o.Response.Events {
			r.SendEvent(event)
		}
	}
}

// recognizeServerChanges compares what is stored with what was written.
func (w *objectWriter) recognizeServerChanges(applied []*trigger.Response, d objectWrite, patch map[string]any) error {
	if !d.checkVersion || !w.written {
		return nil
	}
	desired := object.DecodeOrEmpty(d.before.JSON())
	if d.status != nil {
		desired["status"] = d.status
	}
	return w.pass.RecognizeServerChanges(applied, object.MergePatch(desired, patch))
}

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

// patchObject patches the object, but not its status.
func (w *objectWriter) patchObject(ctx context.Context, patch map[string]any, checkVersion bool) error {
	part := ""
	if _, metadata := patch["metadata"]; metadata && len(patch) == 1 {
		part = "metadata"
	}
	return w.sendPatch(ctx, part, patch, checkVersion)
}

// statusPart is the part of the object that has requests of its own.
const statusPart = "status"

// sendPatch sends a patch of the object, or of a part of it. With checkVersion, the write fails
// if another client has written the object.
func (w *objectWriter) sendPatch(ctx context.Context, part string, patch map[string]any, checkVersion bool) error {
	send, what := w.writer.Patch, "patch"
	if part == statusPart {
		send, what = w.writer.PatchStatus, "store the status of"
	}
	body, err := json.Marshal(object.CombinePatches(patch, map[string]any{"metadata": precondition(w.Stored, checkVersion)}))
	if err != nil {
		return err
	}
	began := w.Record.Now()
	stored, err := send(ctx, w.program.Resource, w.Stored, body)
	w.Record.Wrote(began, record.Write{Verb: record.Patch, Resource: w.program.Resource, Part: part, Before: w.Stored, After: stored,
		Err: err})
	if apply.Conflict(err) {
		return controller.ErrConflict
	}
	if err != nil {
		return fmt.Errorf("%s %s: %w", what, w.Stored.Ref(), err)
	}
	w.setStored(stored)
	if o := w.writing; o != nil && (o.ChangesObject() || part == statusPart && o.Call.Handler.WatchesStatus()) {
		w.pass.ChangeWritten(o.Call.Handler, patch)
	}
	return nil
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

// updateThrottle updates the throttle after the calls of the run, and sends an event when it starts or ends.
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
