package engine

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

// shownParent is the parent as hooks are shown it: what is stored, but for what we say of
// it ourselves, which is no reason to call a hook.
func (r *run) shownParent() *object.Object {
	if !r.program.Conditions {
		return r.stored
	}
	if r.visible.of != r.stored {
		bare, err := plan.Unreported(r.stored, r.memory.authored)
		if err != nil {
			bare = r.stored // What was parsed once is edited without an error.
		}
		r.visible.of, r.visible.as = r.stored, bare
	}
	return r.visible.as
}

// author notes which of our conditions the hook gives itself.
func (r *run) author() {
	if r.program.Conditions {
		r.memory.authored = plan.Authored(r.reply)
	}
}

// report lays over the parent what there is to say of it.
func (r *run) report(now plan.Report) error {
	if !r.program.Conditions || r.program.statusOwner(r.stored) != "" {
		return nil
	}
	said, err := plan.Reported(r.parent, r.stored, now, r.memory.authored, r.tools.Now())
	if err != nil {
		return failure.New(ReasonWriteFailed, err)
	}
	r.parent = said
	return nil
}

// standing is how a parent is doing whose latest response needs no more writes.
func (r *run) standing() plan.Report {
	if fits := r.memory.flapping.Fits(r.tools.Now()); len(fits) > 0 {
		return plan.Report{Phase: plan.Stalled, Reason: ReasonFlapping, Message: flaps(fits[0])}
	}
	if r.rollout != nil && r.rollout.progress.Reason != "" && !r.rollout.progress.Done() {
		return plan.Report{Phase: plan.Reconciling, Reason: r.rollout.progress.Reason, Message: r.rollout.progress.Message}
	}
	return plan.Report{Phase: plan.Synced, Reason: setpoint.ReasonSynced, Message: "the children are as the " + r.asks() + " hook wants them"}
}

// storeFailure stores what an attempt that came to nothing leaves to store: the status of
// responses that were carried out, and what failed.
func (r *run) storeFailure(ctx context.Context, err error) error {
	if ctx.Err() != nil || errors.Is(err, errMoved) && r.memory.moved < patience {
		return nil //nolint:nilerr // The next attempt is near.
	}
	if err := r.report(r.standingAfter(err)); err != nil {
		return err
	}
	return r.storeStatus(ctx)
}

// standingAfter is how a parent is doing whose attempt ended with an error.
func (r *run) standingAfter(err error) plan.Report {
	switch {
	case r.fails(err):
		return r.troubleIn(err)
	case errors.Is(err, errMore) && r.rollout != nil:
		return r.standing()
	}
	// The status in the response is stored: it must not take our conditions with it.
	return plan.Report{Phase: plan.Unchanged}
}

// fails says that an error is a failure, and not only a reason to come again.
func (r *run) fails(err error) bool {
	_, later := hook.Postponed(err)
	_, waits := errors.AsType[*waitError](err)
	return !later && !waits && !errors.Is(err, errWaiting) && !errors.Is(err, errMore)
}

// troubleIn is what a failure says of the parent. One that goes on by itself is no reason
// to call for help, unless it lasts; what a person has to confirm does not.
func (r *run) troubleIn(err error) plan.Report {
	now := plan.Report{Phase: plan.Reconciling, Reason: reasonOf(err), Message: failure.OneLine(err)}
	if hook.Terminal(err) || r.failsForLong() || unrestful(err) ||
		now.Reason == ReasonInvalidSpec || now.Reason == ReasonDeletionsHeld {
		now.Phase = plan.Stalled
	}
	return now
}

// failsForLong says that a parent has been failing for a while, or in the time of another
// process.
func (r *run) failsForLong() bool {
	if last := r.memory.trouble; last.failing && r.since(last.since) >= stalledAfter {
		return true
	}
	return plan.IsStalled(r.stored, r.memory.authored)
}
