package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// finish is the last step. It updates the memory, ends the record, and schedules the next run.
func (r *run) finish(ctx context.Context) record.Outcome {
	if ctx.Err() != nil {
		// The run was interrupted, which is no failure.
		return record.Postponed
	}
	next := r.nextRun()
	if !next.IsZero() {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, max(next.Sub(r.tools.Now()), time.Millisecond))
	}
	if r.Phase == controller.PhaseManaged {
		r.ReportManualReconcile()
		r.reportDeletion()
	}
	r.recordResult()
	switch {
	case r.failure != nil || r.handlerFailing:
		return record.Failed
	case r.conflicted || len(r.memory.Responses) > 0:
		return record.Postponed
	case r.calls > 0 || r.object.written:
		return record.Synced
	}
	return record.Skipped
}

// nextRun returns when to reconcile the object again; zero if only an event triggers that.
func (r *run) nextRun() time.Time {
	if r.Phase == controller.PhasePaused {
		return time.Time{}
	}
	now := r.tools.Now()
	next := r.nextWrite(now)
	for _, d := range r.memory.daemons {
		next = trigger.Earliest(next, d.nextDaemon())
	}
	if r.Phase != controller.PhaseManaged || !r.StillExists() {
		return next
	}
	if r.object.stale || r.dependents.stale {
		r.observe()
	}
	at, ready := r.pass.NextRun()
	next = trigger.Earliest(next, at)
	// Handlers with calls wait until the object can be written again.
	if ready && !r.conflicted && r.failure == nil {
		return now
	}
	return next
}

// nextWrite returns when to retry the pending writes.
func (r *run) nextWrite(now time.Time) time.Time {
	var next time.Time
	if r.conflicted {
		r.memory.Conflicts++
		next = now.Add(controller.ConflictDelay)
		if r.memory.Conflicts > controller.MaxConflicts {
			r.fail(failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("write %s: %w",
				r.Stored.Ref(), controller.ErrTooManyConflicts)))
			next = r.memory.writeAttempt.Next
		}
		return next
	}
	r.memory.Conflicts = 0
	if r.memory.writeAttempt.Count > 0 {
		next = r.memory.writeAttempt.Next
	}
	if r.memory.stateRemovals.Next.After(now) {
		next = trigger.Earliest(next, r.memory.stateRemovals.Next)
	}
	for _, o := range r.memory.Responses {
		next = trigger.Earliest(next, o.Attempt.Next)
	}
	if r.memory.prunedStatus != nil {
		next = trigger.Earliest(next, r.memory.prunedNext)
	}
	return next
}

// recordResult records how the run ended.
func (r *run) recordResult() {
	failed := r.memory.firstError()
	now := controller.Result{HookFailing: failed != nil, Since: r.tools.Now()}
	now.Failing = now.HookFailing || r.failure != nil || r.memory.writeAttempt.Count > 0
	var last *controller.LastError
	switch {
	case r.failure != nil:
		last, now.Fault = r.lastError(failure.OneLine(r.failure)), record.FaultOf(r.failure)
	case r.handlerFailing && failed != nil:
		last, now.Fault = r.lastError(failed.Message), failed.Fault
	}
	if last != nil {
		now.Message, now.Locations = last.Message, last.Locations
	}
	r.Memories.SetResult(r.memory, now, last)
	var conflict controller.Conflict
	if r.memory.Throttle.IsActive() {
		conflict.Message = conflictSummary
	}
	r.Memories.EndRun(r.Run, conflict, r.tools.Now())
}

// conflictSummary is the state of an object whose handlers are throttled.
const conflictSummary = "handlers run again and again because the object changes; they are throttled"

func (r *run) lastError(message string) *controller.LastError {
	among := r.Record.Refused()
	for _, h := range r.memory.Handlers {
		if h.Failed != nil {
			among = record.AddLocations(among, h.Failed.Refused...)
		}
	}
	return &controller.LastError{Message: message, Object: r.Item.Key.String(), Time: r.tools.Now(), Locations: among}
}

func (r *run) reportFailure(err error) {
	event := hook.Event{Type: controller.Warning, Reason: controller.ReasonOf(err), Message: failure.OneLine(err)}
	r.ReportFailure(controller.Failure{Err: err, Event: event})
}

// condition returns the condition for the status. It returns false if the status cannot have
// conditions, by the schema, the object, or the responses, or if no handler has failed so far.
func (w *objectWriter) condition() (hook.Condition, bool) {
	if w.memory == nil {
		return hook.Condition{}, false
	}
	former, placed := w.currentCondition()
	if !w.program.Conditions && !w.memory.conditions && !placed {
		return hook.Condition{}, false
	}
	if former.Status == "False" && !w.ownsCondition(former) {
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

// firstError returns the error of the first failing handler; nil if there is none.
func (m *memory) firstError() *trigger.Failure {
	for _, h := range m.Handlers {
		if h.Failed != nil {
			return h.Failed
		}
	}
	return nil
}

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
	err := w.sendPatch(ctx, statusPart, map[string]any{statusPart: patch}, checkVersion)
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
		"conditions": plan.Conditions(list, conditions, w.Stored.Generation(), w.tools.Now()),
	})
}
