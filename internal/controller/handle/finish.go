package handle

import (
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// eventInterval is how soon an unchanged failure is told again.
const eventInterval = 15 * time.Second

// conflictDelay is how soon a run is repeated that met an object which had changed
// under its hands: when the cache has heard of the change.
const conflictDelay = 100 * time.Millisecond

// maxConflicts is how many runs in a row may end so before that is a failure like any
// other.
const maxConflicts = 20

// finish is the last step: it draws the conclusions, for the memory, for whoever
// looks on, and for when to look again.
func (r *run) finish(ctx context.Context) record.Outcome {
	if ctx.Err() != nil {
		// Stopped in the middle: nothing is known to have failed.
		return record.Postponed
	}
	next := r.nextRun()
	if !next.IsZero() {
		r.Queue.AddAfter(r.item.Key, queue.Cause{Kind: queue.RequeueAfter}, max(next.Sub(r.tools.Now()), time.Millisecond))
	}
	r.reportManualReconcile()
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

// nextRun is when the object is to be looked at again; zero if not before
// something happens.
func (r *run) nextRun() time.Time {
	if r.phase == phasePaused {
		return time.Time{}
	}
	now := r.tools.Now()
	next := r.nextWrite(now)
	for i := range r.memory.handlers {
		if m := &r.memory.handlers[i]; r.program.Handlers[i].Daemon != nil {
			next = earliest(next, m.nextDaemon())
		}
	}
	if r.phase != phaseManaged || !r.stillExists() {
		return next
	}
	if r.stale {
		r.observe()
	}
	r.noteRequeueDigest()
	pending := r.observation(queue.Causes{}).pendingCalls()
	next = earliest(earliest(next, pending.next), r.memory.throttle.endsAt())
	switch {
	case r.conflicted || r.failure != nil:
		// Handlers that are due are called when the object can be written again.
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

// noteRequeueDigest notes what a handler left behind that wants to be called once more, once that
// is written.
func (r *run) noteRequeueDigest() {
	for i := range r.memory.handlers {
		if a := &r.memory.handlers[i].attempt; a.requeued && a.objectDigest == "" && !r.memory.hasPending(i, nil) {
			a.objectDigest = digest(watchableFields(r.stored))
		}
	}
}

// hasEvents says whether a handler has yet to be called for a change.
func (r *run) hasEvents() bool {
	return slices.ContainsFunc(r.memory.handlers, func(m handlerMemory) bool { return len(m.events) > 0 })
}

// nextWrite is when to try again to write what is not written yet.
func (r *run) nextWrite(now time.Time) time.Time {
	var next time.Time
	if r.conflicted {
		r.memory.conflicts++
		next = now.Add(conflictDelay)
		if r.memory.conflicts > maxConflicts {
			r.fail(failure.WithReason(ReasonWriteFailed, fmt.Errorf("write %s: %w", r.stored.Ref(), errTooManyConflicts)))
			next = r.memory.writeAttempt.next
		}
		return next
	}
	r.memory.conflicts = 0
	if r.memory.writeAttempt.count > 0 {
		next = r.memory.writeAttempt.next
	}
	if r.memory.stateRemovals.next.After(now) {
		next = earliest(next, r.memory.stateRemovals.next)
	}
	for _, o := range r.memory.pending {
		next = earliest(next, o.attempt.next)
	}
	return next
}

// recordResult notes how the object is doing.
func (r *run) recordResult() {
	now := runResult{lastEvent: r.memory.result.lastEvent, message: r.memory.result.message, conflicting: r.memory.throttle.isActive()}
	_, complaint, fault := r.firstError()
	now.handlerFailing = complaint != ""
	now.failing = now.handlerFailing || r.failure != nil || r.memory.writeAttempt.count > 0
	var last LastError
	switch {
	case r.failure != nil:
		last, now.fault = r.lastError(failure.OneLine(r.failure)), record.FaultOf(r.failure)
	case r.handlerFailing && complaint != "":
		last, now.fault = r.lastError(complaint), fault
	}
	r.memories.record(r.memory, now, last, r.tools.Now())
}

func (r *run) lastError(message string) LastError {
	among := r.record.Refused()
	for i := range r.memory.handlers {
		if m := &r.memory.handlers[i]; m.errorMessage != "" {
			among = record.AddLocations(among, m.refusedLocations...)
		}
	}
	return LastError{Message: message, Object: r.item.Key.String(), Time: r.tools.Now(), Locations: among}
}

// reportFailure warns the object's user and whoever reads the log, unless the same
// was said a moment ago.
func (r *run) reportFailure(err error) {
	message := failure.OneLine(err)
	log := r.Log.With("object", r.stored.Ref().String(), "error", message)
	last := &r.memory.result
	if last.message == message && r.Since(last.lastEvent) < eventInterval {
		log.Debug("handling failed again")
		return
	}
	log.Warn("handling failed")
	r.sendEvent(hook.Event{Type: warning, Reason: reasonOf(err), Message: message})
	last.message, last.lastEvent = message, r.tools.Now()
}

// reportPause says once that an object is left alone, and once that it is not any
// more.
func (r *run) reportPause() {
	paused := r.phase == phasePaused
	if paused == r.memory.paused {
		return
	}
	event := hook.Event{Type: normal, Reason: ReasonResumed, Message: "in the care of " + r.program.Name + " again"}
	if paused {
		event.Reason = ReasonPaused
		event.Message = "left alone by " + r.program.Name + " while the annotation setpoint.dev/paused is \"true\""
	}
	r.sendEvent(event)
	r.memories.setPaused(r.memory, paused)
}

// reportManualReconcile says that a look which a user asked for was taken.
func (r *run) reportManualReconcile() {
	if r.item.Causes.Has(queue.ReconcileRequested) && r.phase == phaseManaged {
		r.sendEvent(hook.Event{Type: normal, Reason: ReasonRequested,
			Message: "looked at by " + r.program.Name + ", as was asked for"})
	}
}
