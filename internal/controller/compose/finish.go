package compose

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// eventInterval is after what time an unchanged failure is reported again. Together with maxDelay
// and the default hook timeout, a failing parent reports at least once a minute.
const eventInterval = 15 * time.Second

// conflictDelay is the delay after a conflict, in which the cache sees the change.
const conflictDelay = 100 * time.Millisecond

// maxConflicts is how many runs in a row may end with a conflict before that counts as a failure.
const maxConflicts = 20

// finish ends the run: it updates the memory and returns how the key is requeued.
func (r *run) finish(ctx context.Context, err error) (record.Outcome, queue.Outcome) {
	r.memories.setConflict(r.item.Key, r.memory, r.conflict(err), r.tools.Now())
	r.record.Failed(err)
	delay, delayed := hook.RetryDelay(err)
	var wait *deletionsPendingError
	switch {
	case err == nil:
		return r.succeeded(), queue.NoRequeue()
	case ctx.Err() != nil:
		// The context ended: nothing has failed as far as we know.
		return record.Postponed, queue.Retry()
	case delayed:
		// The hook chose the delay: that needs no warning.
		r.Log.Debug("run postponed by the hook", "parent", r.stored.Ref().String(), "delay", delay, "error", failure.OneLine(err))
		r.recordFailure(err, r.memory.result.lastEvent)
		return record.Postponed, queue.RetryAfter(delay)
	case errors.As(err, &wait):
		return record.Postponed, queue.RetryAfter(wait.delay)
	case errors.Is(err, errRelatedPending):
		return record.Postponed, queue.NoRequeue()
	case hook.IsTerminal(err):
		r.recordFailure(err, r.reportFailure(err))
		return record.Failed, queue.NoRequeue()
	case hook.IsUnreachable(err) && r.recoveryProbe.tryAcquire(r.item.Key):
		r.recordFailure(err, r.reportFailure(err))
		return record.Failed, queue.RetryAfter(probeInterval)
	case errors.Is(err, errIncomplete):
		return record.Postponed, queue.RetryAfter(time.Millisecond)
	case errors.Is(err, errConflict) && r.memory.conflicts < maxConflicts:
		r.memory.conflicts++
		return record.Postponed, queue.RetryAfter(conflictDelay)
	}
	r.recordFailure(err, r.reportFailure(err))
	if isConflicting(err) {
		return record.Failed, queue.RetryAfter(conflictBackoff(r.memory.failures))
	}
	return record.Failed, queue.RetryIn(r.Queue.Backoff(r.item))
}

func (r *run) succeeded() record.Outcome {
	r.pruneUpToDate()
	r.memory.conflicts = 0
	if r.calls > 0 {
		r.memory.editPending = false
	}
	r.recordResult(runResult{}, nil)
	r.reportManualReconcile()
	if r.response != nil && r.response.ResyncAfter > 0 {
		r.Queue.AddAfter(r.item.Key, queue.Cause{Kind: queue.RequeueAfter}, r.response.ResyncAfter)
	}
	r.scheduleResync(r.item.Key)
	if r.calls == 0 {
		return record.Skipped
	}
	return record.Synced
}

// recordResult stores the result in the memory. If the hook is reachable again, it retries the
// parents that failed because it was not.
func (r *run) recordResult(now runResult, last *LastError) {
	recovered := r.memory.result.unreachable && !now.unreachable
	r.memories.record(r.memory, r.countChildren(), now, last)
	if recovered {
		r.recoveryProbe.reset()
		r.Queue.RetryKeysNow(r.memories.unreachableKeys())
	}
}

// recordFailure stores a failure. reported is when the last event about it was sent.
func (r *run) recordFailure(err error, reported time.Time) {
	now := runResult{failing: true, hookFailing: isHookFailure(err), unreachable: hook.IsUnreachable(err), message: failure.OneLine(err), fault: record.FaultOf(err), lastEvent: reported, since: r.tools.Now(), locations: r.record.Refused()}
	for _, a := range r.withheld {
		// The message may name these children.
		now.locations = record.AddLocations(now.locations, record.Location{Resource: a.Resource, Namespace: strings.Clone(a.Ref.Namespace)})
	}
	if reasonOf(err) == ReasonConflicting {
		now.locations = record.AddLocations(now.locations, r.latestLocations...)
	}
	r.recordResult(now, &LastError{
		Message: now.message, Object: r.item.Key.String(), Time: r.tools.Now(), Locations: now.locations,
	})
}

// reportFailure logs a failure and sends an event, unless it did so for the same message within
// eventInterval. It returns the time of the last event.
func (r *run) reportFailure(err error) time.Time {
	message := failure.OneLine(err)
	log := r.Log.With("parent", r.stored.Ref().String(), "attempt", r.item.Attempt+1, "error", message)
	last := r.memory.result
	again := reasonOf(err) != ReasonDeletionsHeld && r.Since(last.lastEvent) >= eventInterval
	if last.message == message && !again {
		log.Debug("run failed again")
		return last.lastEvent
	}
	log.Warn("run failed")
	r.sendEvent(r.program.warningEvent(reasonOf(err), message))
	return r.tools.Now()
}

func (p *Program) warningEvent(reason, message string) hook.Event {
	if p.FailureReason == "" {
		return hook.Event{Type: warning, Reason: reason, Message: message}
	}
	return hook.Event{Type: warning, Reason: p.FailureReason, Message: "Sync error: " + reason + ": " + message}
}

// pruneUpToDate drops children that no longer exist.
func (r *run) pruneUpToDate() {
	if len(r.memory.upToDate) <= r.countChildren() {
		return
	}
	present := make(map[uint64]bool, r.countChildren())
	for _, child := range r.observed() {
		present[childDigest(child)] = true
	}
	r.memory.upToDate.prune(present)
}

func (r *run) countChildren() int {
	n := 0
	for _, children := range r.children {
		n += len(children)
	}
	return n
}
