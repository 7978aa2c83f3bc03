package composite

import (
	"cmp"
	"context"
	"errors"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// stalledAfter is how long a parent may fail before it is Stalled.
const stalledAfter = time.Minute

// visibleParent returns the parent as hooks get it: the stored object without the conditions that
// Setpoint sets.
func (r *run) visibleParent() *object.Object {
	if !r.program.Conditions {
		return r.Stored
	}
	if r.visible.of != r.Stored {
		bare, err := plan.WithoutOwnConditions(r.Stored, r.memory.hookConditions)
		if err != nil {
			bare = r.Stored // The object was parsed before, so editing it cannot fail.
		}
		r.visible.of, r.visible.as = r.Stored, bare
	}
	return r.visible.as
}

// noteHookConditions remembers which of Setpoint's condition types the hook sets itself.
func (r *run) noteHookConditions() {
	if r.program.Conditions {
		r.memory.hookConditions = plan.HookConditions(r.response)
	}
}

// setConditions sets Setpoint's conditions in the status of the parent.
func (r *run) setConditions(now plan.StatusReport) error {
	if !r.program.Conditions || r.program.statusOwner(r.Stored) != "" {
		return nil
	}
	now.Message = r.Secrets.Text(now.Message)
	said, err := plan.SetOwnConditions(r.parent, r.Stored, now, r.memory.hookConditions, r.tools.Now())
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	r.parent = said
	return nil
}

// syncReport returns the conditions of a parent whose latest response needs no more writes.
func (r *run) syncReport() plan.StatusReport {
	if r.Phase == controller.PhaseFinalizing {
		what := cmp.Or(r.waitingChildren(), "waits for the answer of the finalize hook that it is done")
		r.ReportWaiting(what)
		return plan.StatusReport{State: plan.Reconciling, Reason: controller.ReasonFinalizing, Message: what}
	}
	if fits := r.memory.flapping.Children(r.tools.Now()); len(fits) > 0 {
		return plan.StatusReport{State: plan.Stalled, Reason: ReasonFlapping, Message: flappingMessage(fits[0])}
	}
	if r.rollout != nil && r.rollout.progress.Reason != "" && !r.rollout.progress.Done() {
		return plan.StatusReport{State: plan.Reconciling, Reason: r.rollout.progress.Reason, Message: r.rollout.progress.Message}
	}
	return plan.StatusReport{State: plan.Synced, Reason: setpoint.ReasonSynced, Message: "all children are up to date"}
}

// storeFailure stores the status of a failed attempt: that of responses that were applied, and the
// failure.
func (r *run) storeFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, controller.ErrConflict) && r.memory.Conflicts < controller.MaxConflicts {
		return nil //nolint:nilerr // The next attempt is near.
	}
	if err := r.setConditions(r.reportAfter(err)); err != nil {
		return err
	}
	return r.storeStatus(ctx)
}

// reportAfter returns the conditions of a parent whose attempt ended with an error.
func (r *run) reportAfter(err error) plan.StatusReport {
	switch {
	case r.isFailure(err):
		return r.failureReport(err)
	case errors.Is(err, errIncomplete) && r.rollout != nil:
		return r.syncReport()
	}
	// The status in the response replaces the stored one: keep the conditions in it.
	return plan.StatusReport{State: plan.Unchanged}
}

// isFailure reports whether an error is a failure, not only a reason to requeue.
func (r *run) isFailure(err error) bool {
	_, delayed := hook.RetryDelay(err)
	_, waits := errors.AsType[*guard.PendingError](err)
	return !delayed && !waits && !errors.Is(err, errRelatedPending) && !errors.Is(err, errIncomplete)
}

// failureReport returns the conditions of a failed parent. It is Stalled if retries do not help or
// have not helped for a while.
func (r *run) failureReport(err error) plan.StatusReport {
	now := plan.StatusReport{State: plan.Reconciling, Reason: controller.ReasonOf(err), Message: failure.OneLine(err)}
	if hook.IsTerminal(err) || r.isStalled() || isConflicting(err) ||
		now.Reason == ReasonInvalidParent || now.Reason == ReasonDeletionsHeld {
		now.State = plan.Stalled
	}
	return now
}

// isStalled reports whether the parent has been failing for longer than stalledAfter, or was
// Stalled when the process started.
func (r *run) isStalled() bool {
	if last := r.memory.Result; last.Failing && r.Since(last.Since) >= stalledAfter {
		return true
	}
	return plan.IsStalled(r.Stored, r.memory.hookConditions)
}

// storeStatus stores the status of the latest response, and the labels and annotations of a
// decorator, if they changed.
func (r *run) storeStatus(ctx context.Context) error {
	if r.parent == r.Stored || !r.StillExists() {
		return nil
	}
	if r.decorationChanged() {
		if err := r.decorate(ctx); err != nil {
			return err
		}
	}
	if r.parent == r.Stored || r.isStatusStored() || !r.program.Parent.Status {
		return nil
	}
	began := r.Record.Now()
	stored, err := r.writer().UpdateStatus(ctx, r.program.Parent, r.parent)
	r.Record.Wrote(began, record.Write{Resource: r.program.Parent, Part: "status", Before: r.Stored, After: stored, Err: err})
	if err != nil {
		return r.dropRejected(updateError("store the status of", r.Stored, err))
	}
	r.ObserveWrite(r.program.Parent, stored)
	r.memory.hasWritten = true
	r.noteStatus(r.parent, stored)
	r.Stored, r.parent, r.planner.Parent = stored, stored, stored
	return nil
}

// dropRejected drops the changes of a rejected write of the parent, so that they are not sent
// again. It returns the error.
func (r *run) dropRejected(err error) error {
	r.memory.syncedInput, r.parent = 0, r.Stored
	return err
}

// decorate writes the labels and annotations that a decorator sets.
func (r *run) decorate(ctx context.Context) error {
	wanted := r.parent
	r.noteOwnWrite(r.Item.Key, r.parent)
	if err := r.storeParent(ctx, "decorate", r.parent); err != nil {
		return err
	}
	r.noteOwnWrite(r.Item.Key, r.Stored)
	r.memory.hasWritten = true
	if !r.program.Parent.Status {
		r.noteStatus(wanted, r.Stored)
	}
	return nil
}

// noteStatus notes what the server made of a status, and reports a field that it did not store.
func (r *run) noteStatus(wanted, stored *object.Object) {
	known := &r.memory.status
	known.wanted, known.stored, known.prunedAt = statusDigest(wanted), statusDigest(stored), time.Time{}
	if known.wanted == known.stored {
		return
	}
	want, _ := object.Decode(wanted.Field("status"))
	have, _ := object.Decode(stored.Field("status"))
	if missing, _ := object.Missing(want, have); missing == nil {
		return
	}
	known.prunedAt = r.tools.Now()
	_, field := object.Missing(r.returnedStatus(wanted), have)
	r.ReportPruned(field)
}

// returnedStatus is a status without what Setpoint itself adds to that of a response: no author can leave that out.
func (r *run) returnedStatus(wanted *object.Object) map[string]any {
	if bare, err := plan.WithoutOwnConditions(wanted, r.memory.hookConditions); err == nil && r.program.Conditions {
		wanted = bare
	}
	status, _ := object.Decode(wanted.Field("status"))
	if r.program.Parent.Custom && !r.program.isDecorator() {
		delete(status, plan.FieldObservedGeneration)
	}
	return status
}

// retryPruned returns when to write a status again of which the server did not store a field; zero if it stored all.
func (r *run) retryPruned() time.Time {
	if r.memory.status.prunedAt.IsZero() {
		return time.Time{}
	}
	return r.memory.status.prunedAt.Add(controller.PrunedRetry)
}

// decorationChanged reports whether more than the status subresource has to be written.
func (r *run) decorationChanged() bool {
	if !r.program.isDecorator() {
		return false
	}
	same := func(field ...string) bool {
		return object.DigestOf(r.parent.Field(field...)) == object.DigestOf(r.Stored.Field(field...))
	}
	return !same("metadata", "labels") || !same("metadata", "annotations") ||
		!r.program.Parent.Status && !same("status") && !r.isStatusStored()
}

// isStatusStored reports whether this status was sent before and what the server made of it is
// still stored.
func (r *run) isStatusStored() bool {
	known, again := r.memory.status, r.retryPruned()
	if !again.IsZero() && (r.Item.Causes.Has(queue.ReconcileRequested) || !again.After(r.tools.Now())) {
		return false
	}
	return known.wanted != 0 && known.wanted == statusDigest(r.parent) && known.stored == statusDigest(r.Stored)
}

func statusDigest(o *object.Object) uint64 { return object.DigestOf(o.Field("status")) }
