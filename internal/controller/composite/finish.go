package composite

import (
	"context"
	"errors"
	"maps"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// finish ends the run: it updates the memory and returns how the key is requeued.
func (r *run) finish(ctx context.Context, err error) (record.Outcome, queue.Outcome) {
	before := r.memory.failures.before(r.logic.Version)
	outcome, requeue := r.end(ctx, err)
	r.noteMoved(outcome, err, before)
	r.memory.failures.add(r.logic.Version, outcome, err)
	r.noteNotCompared(outcome, err)
	return outcome, requeue
}

func (r *run) end(ctx context.Context, err error) (record.Outcome, queue.Outcome) {
	r.Memories.EndRun(r.Run, r.conflict(err), r.tools.Now())
	if ctx.Err() == nil {
		r.Record.Failed(err)
	}
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
		r.Log.Debug("run postponed by the hook", "parent", r.Stored.Ref().String(), "delay", delay, "error", failure.OneLine(err))
		r.recordFailure(err)
		return record.Postponed, queue.RetryAfter(delay)
	case errors.As(err, &wait):
		return record.Postponed, queue.RetryAfter(wait.delay)
	case errors.Is(err, errRelatedPending):
		return record.Postponed, queue.NoRequeue()
	case hook.IsTerminal(err):
		return r.failed(err), queue.NoRequeue()
	case r.recoveryProbe.tryAcquire(r.Item.Key, err, r.tools.Now()):
		return r.failed(err), queue.RetryAfter(probeInterval)
	case errors.Is(err, errIncomplete):
		return record.Postponed, queue.RetryAfter(time.Millisecond)
	case errors.Is(err, controller.ErrConflict) && r.memory.Conflicts < controller.MaxConflicts:
		r.memory.Conflicts++
		return record.Postponed, queue.RetryAfter(controller.ConflictDelay)
	case isConflicting(err):
		outcome := r.failed(err)
		return outcome, queue.RetryAfter(conflictBackoff(r.memory.Attempts))
	}
	return r.failed(err), queue.RetryIn(r.Queue.Backoff(r.Item))
}

func (r *run) failed(err error) record.Outcome {
	r.reportFailure(err)
	r.recordFailure(err)
	return record.Failed
}

// minResync is the shortest delay that a response can request: a shorter one would call the hook at full speed.
const minResync = 100 * time.Millisecond

// resyncDelay returns the delay that a response requests; zero for none.
func resyncDelay(response *hook.Response) time.Duration {
	if response == nil || response.ResyncAfter <= 0 {
		return 0
	}
	return max(response.ResyncAfter, minResync)
}

func (r *run) succeeded() record.Outcome {
	r.pruneUpToDate()
	r.memory.Conflicts = 0
	if r.calls > 0 {
		r.memory.editPending = false
	}
	r.recordResult(controller.Result{}, nil)
	r.memory.ForgetReported()
	r.ReportManualReconcile()
	if delay := resyncDelay(r.response); delay > 0 {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, delay)
	}
	if again := r.retryPruned(); !again.IsZero() {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, max(again.Sub(r.tools.Now()), minResync))
	}
	r.scheduleResync(r.Item.Key)
	if r.calls == 0 {
		return record.Skipped
	}
	return record.Synced
}

// recordResult stores the result in the memory. If the hook is reachable again, it retries the
// parents that failed because it was not.
func (r *run) recordResult(now controller.Result, last *controller.LastError) {
	recovered := r.memory.Result.Unreachable && !now.Unreachable
	r.Memories.SetChildren(r.memory, r.countChildren())
	r.Memories.SetResult(r.memory, now, last)
	if recovered {
		r.recoveryProbe.reset()
		r.Queue.RetryKeysNow(r.Memories.Keys(func(result controller.Result) bool { return result.Unreachable }))
	}
}

func (r *run) recordFailure(err error) {
	now := controller.Result{
		Failing: true, HookFailing: isHookFailure(err), Unreachable: hook.IsUnreachable(err),
		RelatedMissing: controller.ReasonOf(err) == ReasonRelatedMissing,
		Invalid:        controller.ReasonOf(err) == ReasonInvalidParent,
		Message:        failure.OneLine(err), Fault: record.FaultOf(err), Since: r.tools.Now(), Locations: r.Record.Refused(),
	}
	for _, a := range r.withheld {
		// The message may name these children.
		now.Locations = record.AddLocations(now.Locations, record.Location{Resource: a.Resource, Namespace: strings.Clone(a.Ref.Namespace)})
	}
	if controller.ReasonOf(err) == ReasonConflicting {
		now.Locations = record.AddLocations(now.Locations, r.latestLocations...)
	}
	r.recordResult(now, &controller.LastError{
		Message: now.Message, Object: r.Item.Key.String(), Time: r.tools.Now(), Locations: now.Locations,
	})
}

// reportFailure reports a failure. Held deletions are reported once: only a user can end them.
func (r *run) reportFailure(err error) {
	reason := controller.ReasonOf(err)
	r.ReportFailure(controller.Failure{
		Err: err, Event: r.program.warningEvent(reason, failure.OneLine(err)), Once: reason == ReasonDeletionsHeld,
	})
}

func (p *Program) warningEvent(reason, message string) hook.Event {
	if p.FailureReason == "" {
		return hook.Event{Type: controller.Warning, Reason: reason, Message: message}
	}
	return hook.Event{Type: controller.Warning, Reason: p.FailureReason, Message: "Sync error: " + reason + ": " + message}
}

// pruneUpToDate drops children that no longer exist.
func (r *run) pruneUpToDate() {
	if max(len(r.memory.upToDate), len(r.memory.coOwned)) <= r.countChildren() {
		return
	}
	present := make(map[uint64]bool, r.countChildren())
	for _, child := range r.observed() {
		present[childDigest(child)] = true
	}
	r.memory.upToDate.prune(present)
	maps.DeleteFunc(r.memory.coOwned, func(child uint64, _ bool) bool { return !present[child] })
}

func (r *run) countChildren() int {
	n := 0
	for _, children := range r.children {
		n += len(children)
	}
	return n
}
