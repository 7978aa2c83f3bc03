package composite

import (
	"cmp"
	"context"
	"errors"
	"strings"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/rollout/router"
)

// finish ends the run: it updates the memory and returns how the key is requeued.
func (r *run) finish(ctx context.Context, err error) (record.Outcome, queue.Outcome) {
	outcome, requeue := r.end(ctx, err)
	r.memory.version = r.logic.Version
	r.Router.Ended(r.routed(), &router.End{Outcome: outcome, Err: err, Blame: blameFor(err), Calls: r.calls})
	return outcome, requeue
}

func (r *run) end(ctx context.Context, err error) (record.Outcome, queue.Outcome) {
	r.Memories.EndRun(r.Run, r.conflict(err), r.Now())
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
		return r.reportFailed(err), queue.NoRequeue()
	case r.recoveryProbe.tryAcquire(r.Item.Key, err, r.Now()):
		return r.reportFailed(err), queue.RetryAfter(probeInterval)
	case errors.Is(err, errIncomplete):
		return record.Postponed, queue.RetryAfter(time.Millisecond)
	case errors.Is(err, controller.ErrConflict) && r.memory.Conflicts < controller.MaxConflicts:
		r.memory.Conflicts++
		return record.Postponed, queue.RetryAfter(controller.ConflictDelay)
	case isConflicting(err):
		outcome := r.reportFailed(err)
		return outcome, queue.RetryAfter(conflictBackoff(r.memory.Attempts))
	}
	return r.reportFailed(err), queue.RetryIn(r.Queue.Backoff(r.Item))
}

func blameFor(err error) router.Blame {
	switch reason := controller.ReasonOf(err); {
	case reason == ReasonInvalidParent:
		return router.Parent
	case reason == ReasonDeletionsHeld:
		return router.DeletionGuard
	case reason == ReasonFlapping, reason == ReasonRolloutFailed, reason == controller.ReasonWriteFailed && apply.Unreachable(err):
		return router.Elsewhere
	case hook.IsTerminal(err):
		return router.VersionForGood
	}
	return router.Version
}

// reportFailed reports a failure. Held deletions are reported once: only a user can end them.
func (r *run) reportFailed(err error) record.Outcome {
	event, reason := controller.EventOf(err), controller.ReasonOf(err)
	if named := r.program.FailureReason; named != "" {
		event.Reason, event.Message = named, "Sync error: "+reason+": "+event.Message
	}
	r.ReportFailure(err, event, reason == ReasonDeletionsHeld)
	r.recordFailure(err)
	return record.Failed
}

func conflictBackoff(failed int) time.Duration {
	return min(maxDelay, time.Second<<min(max(failed-1, 0), 6))
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
	r.recordResult(controller.Result{}, false)
	r.memory.ForgetReported()
	r.ReportManualReconcile()
	if delay := resyncDelay(r.response); delay > 0 {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, delay)
	}
	if again := r.status.retryPruned(); !again.IsZero() {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, max(again.Sub(r.Now()), minResync))
	}
	if period := r.program.Resync; period > 0 { // With jitter, so that parents spread out.
		spread := time.Duration(r.QueueOptions.Random() * 0.1 * float64(period))
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.Resync}, period-spread)
	}
	if r.calls == 0 {
		return record.Skipped
	}
	return record.Synced
}

// recordResult stores the result. If the hook is reachable again, it retries the parents that failed as it was not.
func (r *run) recordResult(now controller.Result, failed bool) {
	recovered := r.memory.Result.Unreachable && !now.Unreachable
	now.Children = r.family.countChildren()
	r.Memories.SetResult(r.Item.Key, r.memory, now, failed)
	if recovered {
		r.recoveryProbe.reset()
		r.Queue.RetryKeysNow(r.Memories.Keys(func(result controller.Result) bool { return result.Unreachable }))
	}
}

func (r *run) recordFailure(err error) {
	reason := controller.ReasonOf(err)
	now := controller.Result{
		Failing: true, HookFailing: isHookFailure(err), Unreachable: hook.IsUnreachable(err),
		RelatedMissing: reason == ReasonRelatedMissing, Invalid: reason == ReasonInvalidParent,
		Message: failure.OneLine(err), Reason: reason, Fault: record.FaultOf(err), Since: r.Now(), Locations: r.Record.Refused(),
	}
	for _, a := range r.guarded.Withheld {
		// The message may name these children.
		now.Locations = record.AddLocations(now.Locations,
			record.Location{Kind: object.KindOf(a.Resource), Namespace: strings.Clone(a.Ref.Namespace)})
	}
	if reason == ReasonConflicting {
		now.Locations = record.AddLocations(now.Locations, r.firstAt...)
	}
	r.recordResult(now, true)
}

// stalledAfter is how long a parent may fail before it is Stalled.
const stalledAfter = time.Minute

// syncReport returns the conditions of a parent whose latest response needs no more writes.
func (r *run) syncReport() plan.StatusReport {
	if r.Phase == controller.PhaseFinalizing {
		what := cmp.Or(r.family.waitingChildren(), "waits for the answer of the finalize hook that it is done")
		return r.waitingReport(what)
	}
	if fits := r.memory.flapping.Children(r.Now()); len(fits) > 0 {
		return plan.StatusReport{State: plan.Stalled, Reason: ReasonFlapping, Message: flappingMessage(fits[0])}
	}
	if r.rollout != nil && r.rollout.progress.Reason != "" && !r.rollout.progress.Done() {
		return plan.StatusReport{State: plan.Reconciling, Reason: r.rollout.progress.Reason, Message: r.rollout.progress.Message}
	}
	return plan.StatusReport{State: plan.Synced, Reason: setpoint.ReasonSynced, Message: "all children are up to date"}
}

// waitingReport says on a parent that is being finalized, and in an event, what it waits for.
func (r *run) waitingReport(what string) plan.StatusReport {
	r.ReportWaiting(what)
	return plan.StatusReport{State: plan.Reconciling, Reason: controller.ReasonFinalizing, Message: what}
}

// storeFailure stores the status of a failed attempt: that of responses that were applied, and the failure.
func (r *run) storeFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, controller.ErrConflict) && r.memory.Conflicts < controller.MaxConflicts {
		return nil //nolint:nilerr // The next attempt is near.
	}
	// The status in the response replaces the stored one: keep the conditions in it.
	report := plan.StatusReport{State: plan.Unchanged}
	switch {
	case isFailure(err):
		report = r.failureReport(err)
	case errors.Is(err, errIncomplete) && r.rollout != nil:
		report = r.syncReport()
	}
	return r.status.report(ctx, report)
}

// failureReport returns the conditions of a failed parent. It is Stalled if retries do not help or
// have not helped for a while, or if it was when the process started.
func (r *run) failureReport(err error) plan.StatusReport {
	now := plan.StatusReport{State: plan.Reconciling, Reason: controller.ReasonOf(err), Message: failure.OneLine(err)}
	last := r.memory.Result
	stalled := last.Failing && r.Since(last.Since) >= stalledAfter || plan.IsStalled(r.Stored, r.memory.hookConditions)
	if hook.IsTerminal(err) || stalled || isConflicting(err) ||
		now.Reason == ReasonInvalidParent || now.Reason == ReasonDeletionsHeld {
		now.State = plan.Stalled
	}
	return now
}

// holdParent adds the finalizer before the first hook call, so that the parent cannot be deleted
// without a call of the finalize hook. What that call needs must have been there once.
func (r *run) holdParent(ctx context.Context) error {
	if r.logic.Finalize == nil || r.Phase != controller.PhaseManaged || r.Stored.HasFinalizer(r.program.Finalizer) {
		return nil
	}
	if err := r.relation.findRelated(ctx); err != nil {
		return err
	}
	if err := r.status.storeFinalizers(ctx, "add the finalizer to", append(r.Stored.Finalizers(), r.program.Finalizer)); err != nil {
		return err
	}
	if r.related != nil {
		r.memory.customizedParent = r.relation.customizeDigest() // The finalizer makes no difference.
	}
	return nil
}

// noteFinalized keeps what the last response says about the parent until it is stored, which may take several runs.
func (r *run) noteFinalized() bool {
	r.memory.finalResponse = nil
	if r.Phase == controller.PhaseFinalizing && r.response.Finalized {
		final := *r.response
		final.Children, final.Events = nil, nil
		r.memory.finalResponse = &final
	}
	return r.memory.finalResponse != nil
}

// completeFinalization removes the finalizer once all children that are being deleted are gone. What the last
// response says about the parent is stored before, or in the same write.
func (r *run) completeFinalization(ctx context.Context) error {
	if r.response == nil {
		r.response = r.memory.finalResponse
		overlaid, err := r.status.overlay(r.response)
		if err != nil {
			return err
		}
		r.status.wanted = overlaid
	}
	if waiting := r.family.waitingChildren(); waiting != "" {
		return r.status.report(ctx, r.waitingReport(waiting))
	}
	if !r.Stored.Deleting() || len(r.Stored.Finalizers()) > 1 {
		// The parent stays, so store its status without Setpoint's conditions.
		if err := r.status.report(ctx, plan.StatusReport{}); err != nil {
			return err
		}
	}
	if err := r.status.removeFinalizer(ctx); err != nil {
		return err
	}
	r.memory.finalResponse = nil
	return nil
}

// releaseAbandoned removes the finalizer after an error if the namespace is terminating and the ServiceAccount cannot.
// It returns the error if the parent has to wait.
func (r *run) releaseAbandoned(ctx context.Context, cause error) error {
	stored, err := r.ReleaseAbandoned(ctx, controller.Abandoned{
		Forbidden: controller.IsForbidden(cause), Why: failure.OneLine(cause), Finalizer: r.program.Finalizer,
		Left: len(r.Children(r.Stored)),
	})
	switch {
	case err != nil:
		return joinErrors([]error{cause, err})
	case stored == nil:
		return cause
	}
	r.ObserveWrite(r.program.Parent, stored)
	r.Stored, r.status.wanted = stored, stored
	return nil
}
