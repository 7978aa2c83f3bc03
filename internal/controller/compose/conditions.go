package compose

import (
	"context"
	"errors"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// stalledAfter is how long a parent may fail before it says that it is stalled.
const stalledAfter = time.Minute

// visibleParent is the parent as hooks are shown it: what is stored, but for what we say of
// it ourselves, which is no reason to call a hook.
func (r *run) visibleParent() *object.Object {
	if !r.program.Conditions {
		return r.stored
	}
	if r.visible.of != r.stored {
		bare, err := plan.WithoutOwnConditions(r.stored, r.memory.hookConditions)
		if err != nil {
			bare = r.stored // What was parsed once is edited without an error.
		}
		r.visible.of, r.visible.as = r.stored, bare
	}
	return r.visible.as
}

// noteHookConditions notes which of our conditions the hook gives itself.
func (r *run) noteHookConditions() {
	if r.program.Conditions {
		r.memory.hookConditions = plan.HookConditions(r.response)
	}
}

// setConditions lays over the parent what there is to say of it.
func (r *run) setConditions(now plan.StatusReport) error {
	if !r.program.Conditions || r.program.statusOwner(r.stored) != "" {
		return nil
	}
	said, err := plan.SetOwnConditions(r.parent, r.stored, now, r.memory.hookConditions, r.tools.Now())
	if err != nil {
		return failure.WithReason(ReasonWriteFailed, err)
	}
	r.parent = said
	return nil
}

// syncReport is how a parent is doing whose latest response needs no more writes.
func (r *run) syncReport() plan.StatusReport {
	if fits := r.memory.flapping.Children(r.tools.Now()); len(fits) > 0 {
		return plan.StatusReport{State: plan.Stalled, Reason: ReasonFlapping, Message: flappingMessage(fits[0])}
	}
	if r.rollout != nil && r.rollout.progress.Reason != "" && !r.rollout.progress.Done() {
		return plan.StatusReport{State: plan.Reconciling, Reason: r.rollout.progress.Reason, Message: r.rollout.progress.Message}
	}
	return plan.StatusReport{State: plan.Synced, Reason: setpoint.ReasonSynced, Message: "the children are as the " + r.hookName() + " hook wants them"}
}

// storeFailure stores what an attempt that came to nothing leaves to store: the status of
// responses that were carried out, and what failed.
func (r *run) storeFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, errConflict) && r.memory.conflicts < maxConflicts {
		return nil //nolint:nilerr // The next attempt is near.
	}
	if err := r.setConditions(r.reportAfter(err)); err != nil {
		return err
	}
	return r.storeStatus(ctx)
}

// reportAfter is how a parent is doing whose attempt ended with an error.
func (r *run) reportAfter(err error) plan.StatusReport {
	switch {
	case r.isFailure(err):
		return r.failureReport(err)
	case errors.Is(err, errIncomplete) && r.rollout != nil:
		return r.syncReport()
	}
	// The status in the response is stored: it must not take our conditions with it.
	return plan.StatusReport{State: plan.Unchanged}
}

// isFailure says that an error is a failure, and not only a reason to come again.
func (r *run) isFailure(err error) bool {
	_, delayed := hook.RetryDelay(err)
	_, waits := errors.AsType[*deletionsPendingError](err)
	return !delayed && !waits && !errors.Is(err, errRelatedPending) && !errors.Is(err, errIncomplete)
}

// failureReport is what a failure says of the parent. One that goes on by itself is no reason
// to call for help, unless it lasts; what a person has to confirm does not.
func (r *run) failureReport(err error) plan.StatusReport {
	now := plan.StatusReport{State: plan.Reconciling, Reason: reasonOf(err), Message: failure.OneLine(err)}
	if hook.IsTerminal(err) || r.isStalled() || isConflicting(err) ||
		now.Reason == ReasonInvalidParent || now.Reason == ReasonDeletionsHeld {
		now.State = plan.Stalled
	}
	return now
}

// isStalled says that a parent has been failing for a while, or in the time of another
// process.
func (r *run) isStalled() bool {
	if last := r.memory.result; last.failing && r.since(last.since) >= stalledAfter {
		return true
	}
	return plan.IsStalled(r.stored, r.memory.hookConditions)
}
