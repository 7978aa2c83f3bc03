package handler

import (
	"context"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
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
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, max(next.Sub(r.Tools.Now()), time.Millisecond))
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
	now := r.Tools.Now()
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
	now := controller.Result{HookFailing: failed != nil, Since: r.Tools.Now()}
	now.Failing = now.HookFailing || r.failure != nil || r.memory.writeAttempt.Count > 0
	again := true
	switch {
	case r.failure != nil:
		now.Message, now.Fault = failure.OneLine(r.failure), record.FaultOf(r.failure)
	case r.handlerFailing && failed != nil:
		now.Message, now.Fault = failed.Message, failed.Fault
	default:
		again = false
	}
	if again {
		now.Locations = r.refused()
	}
	r.Memories.SetResult(r.Item.Key, r.memory, now, again)
	var conflict controller.Conflict
	if r.memory.Throttle.IsActive() {
		conflict.Message = conflictSummary
	}
	r.Memories.EndRun(r.Run, conflict, r.Tools.Now())
}

// conflictSummary is the state of an object whose handlers are throttled.
const conflictSummary = "handlers run again and again because the object changes; they are throttled"

// refused returns where writes of the object's handlers were rejected.
func (r *run) refused() []record.Location {
	among := r.Record.Refused()
	for _, h := range r.memory.Handlers {
		if h.Failed != nil {
			among = record.AddLocations(among, h.Failed.Refused...)
		}
	}
	return among
}
