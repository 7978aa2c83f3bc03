package composite

import (
	"context"
	"errors"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// finish ends the run: it updates the memory and returns how the key is requeued.
func (r *run) finish(ctx context.Context, err error) (record.Outcome, queue.Outcome) {
	outcome, requeue := r.end(ctx, err)
	r.memory.version = r.logic.Version
	r.Router.Ended(r.routed(), &router.End{Outcome: outcome, Err: err, Blame: blameFor(err), Called: r.calls > 0})
	return outcome, requeue
}

func (r *run) end(ctx context.Context, err error) (record.Outcome, queue.Outcome) {
	r.Memories.EndRun(r.Run, r.conflict(err), r.tools.Now())
	if ctx.Err() == nil {
		r.Record.Failed(err)
	}
	delay, delayed := hook.RetryDelay(err)
	var wait *guard.PendingError
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
		return record.Postponed, queue.RetryAfter(wait.Delay)
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

// failed reports a failure. Held deletions are reported once: only a user can end them.
func (r *run) failed(err error) record.Outcome {
	reason := controller.ReasonOf(err)
	r.ReportFailure(controller.Failure{
		Err: err, Event: r.program.warningEvent(reason, failure.OneLine(err)), Once: reason == ReasonDeletionsHeld,
	})
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
	r.family.forgetGone()
	r.memory.Conflicts = 0
	if r.calls > 0 {
		r.memory.edits.Pending = false
	}
	r.recordResult(controller.Result{}, nil)
	r.memory.ForgetReported()
	r.ReportManualReconcile()
	if delay := resyncDelay(r.response); delay > 0 {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, delay)
	}
	if again := r.status.retryPruned(); !again.IsZero() {
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
	r.Memories.SetChildren(r.memory, r.family.countChildren())
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
	for _, a := range r.guarded.Withheld {
		// The message may name these children.
		now.Locations = record.AddLocations(now.Locations, record.Location{Resource: a.Resource, Namespace: strings.Clone(a.Ref.Namespace)})
	}
	if controller.ReasonOf(err) == ReasonConflicting {
		now.Locations = record.AddLocations(now.Locations, r.firstAt...)
	}
	r.recordResult(now, &controller.LastError{
		Message: now.Message, Object: r.Item.Key.String(), Time: r.tools.Now(), Locations: now.Locations,
	})
}
