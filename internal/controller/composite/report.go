package composite

import (
	"cmp"
	"context"
	"errors"
	"time"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// stalledAfter is how long a parent may fail before it is Stalled.
const stalledAfter = time.Minute

// syncReport returns the conditions of a parent whose latest response needs no more writes.
func (r *run) syncReport() plan.StatusReport {
	if r.Phase == controller.PhaseFinalizing {
		what := cmp.Or(r.family.waitingChildren(), "waits for the answer of the finalize hook that it is done")
		r.ReportWaiting(what)
		return waitingReport(what)
	}
	if fits := r.memory.flapping.Children(r.tools.Now()); len(fits) > 0 {
		return plan.StatusReport{State: plan.Stalled, Reason: ReasonFlapping, Message: flappingMessage(fits[0])}
	}
	if r.rollout != nil && r.rollout.progress.Reason != "" && !r.rollout.progress.Done() {
		return plan.StatusReport{State: plan.Reconciling, Reason: r.rollout.progress.Reason, Message: r.rollout.progress.Message}
	}
	return plan.StatusReport{State: plan.Synced, Reason: setpoint.ReasonSynced, Message: "all children are up to date"}
}

// waitingReport says on a parent that is being finalized what it waits for.
func waitingReport(what string) plan.StatusReport {
	return plan.StatusReport{State: plan.Reconciling, Reason: controller.ReasonFinalizing, Message: what}
}

// storeFailure stores the status of a failed attempt: that of responses that were applied, and the
// failure.
func (r *run) storeFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, controller.ErrConflict) && r.memory.Conflicts < controller.MaxConflicts {
		return nil //nolint:nilerr // The next attempt is near.
	}
	if err := r.status.setConditions(r.reportAfter(err)); err != nil {
		return err
	}
	return r.status.store(ctx)
}

// reportAfter returns the conditions of a parent whose attempt ended with an error.
func (r *run) reportAfter(err error) plan.StatusReport {
	switch {
	case isFailure(err):
		return r.failureReport(err)
	case errors.Is(err, errIncomplete) && r.rollout != nil:
		return r.syncReport()
	}
	// The status in the response replaces the stored one: keep the conditions in it.
	return plan.StatusReport{State: plan.Unchanged}
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
