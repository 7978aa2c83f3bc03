package handler

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
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
	case r.conflicted || len(r.memory.pending) > 0:
		return record.Postponed
	case r.calls > 0 || r.written:
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
	for _, h := range r.memory.handlers {
		if h.Daemon != nil {
			next = earliest(next, h.nextDaemon())
		}
	}
	if r.Phase != controller.PhaseManaged || !r.StillExists() {
		return next
	}
	if r.stale {
		r.observe()
	}
	r.noteRequeueDigest()
	r.causes = queue.Causes{}
	pending := r.pendingCalls()
	next = earliest(earliest(next, pending.next), r.memory.throttle.endsAt())
	next = earliest(next, r.nextMatch(now))
	switch {
	case r.conflicted || r.failure != nil:
		// Pending handlers are called when the object can be written again.
		return next
	case len(pending.calls) > 0:
		return now
	case !r.hasEvents():
		return next
	case r.memory.throttle.blocks(now):
		return earliest(next, r.memory.throttle.until)
	}
	return now
}

// noteRequeueDigest stores the digest of the written object for a handler that requested
// another call.
func (r *run) noteRequeueDigest() {
	for _, h := range r.memory.handlers {
		if a := &h.attempt; a.requeued && a.objectDigest == "" && !r.memory.hasPending(h, nil) {
			a.objectDigest = digest(watchableFields(r.Stored))
		}
	}
}

// hasEvents reports whether a handler has unseen events.
func (r *run) hasEvents() bool {
	return slices.ContainsFunc(r.memory.handlers, func(h *handlerMemory) bool { return len(h.events) > 0 })
}

// nextWrite returns when to retry the pending writes.
func (r *run) nextWrite(now time.Time) time.Time {
	var next time.Time
	if r.conflicted {
		r.memory.Conflicts++
		next = now.Add(controller.ConflictDelay)
		if r.memory.Conflicts > controller.MaxConflicts {
			r.fail(failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("write %s: %w", r.Stored.Ref(), errTooManyConflicts)))
			next = r.memory.writeAttempt.next
		}
		return next
	}
	r.memory.Conflicts = 0
	if r.memory.writeAttempt.count > 0 {
		next = r.memory.writeAttempt.next
	}
	if r.memory.stateRemovals.next.After(now) {
		next = earliest(next, r.memory.stateRemovals.next)
	}
	for _, o := range r.memory.pending {
		next = earliest(next, o.attempt.next)
	}
	if r.memory.prunedStatus != nil {
		next = earliest(next, r.memory.prunedNext)
	}
	return next
}

// recordResult records how the run ended.
func (r *run) recordResult() {
	failed := r.firstError()
	now := controller.Result{HookFailing: failed != nil, Since: r.tools.Now()}
	now.Failing = now.HookFailing || r.failure != nil || r.memory.writeAttempt.count > 0
	var last *controller.LastError
	switch {
	case r.failure != nil:
		last, now.Fault = r.lastError(failure.OneLine(r.failure)), record.FaultOf(r.failure)
	case r.handlerFailing && failed != nil:
		last, now.Fault = r.lastError(failed.message), failed.fault
	}
	if last != nil {
		now.Message, now.Locations = last.Message, last.Locations
	}
	r.Memories.SetResult(r.memory, now, last)
	var conflict controller.Conflict
	if r.memory.throttle.isActive() {
		conflict.Message = conflictSummary
	}
	r.Memories.EndRun(r.Run, conflict, r.tools.Now())
}

// conflictSummary is the state of an object whose handlers are throttled.
const conflictSummary = "handlers run again and again because the object changes; they are throttled"

func (r *run) lastError(message string) *controller.LastError {
	among := r.Record.Refused()
	for _, h := range r.memory.handlers {
		if h.failed != nil {
			among = record.AddLocations(among, h.failed.refused...)
		}
	}
	return &controller.LastError{Message: message, Object: r.Item.Key.String(), Time: r.tools.Now(), Locations: among}
}

func (r *run) reportFailure(err error) {
	event := hook.Event{Type: controller.Warning, Reason: controller.ReasonOf(err), Message: failure.OneLine(err)}
	r.ReportFailure(controller.Failure{Err: err, Event: event})
}
