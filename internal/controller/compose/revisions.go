package compose

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// watchRevisions starts the watch of revisions if a child rule is rolling.
func (c *Controller) watchRevisions() {
	if !c.program.Children.Rolling() {
		return
	}
	selection := c.selectionFor(plan.ControllerRevisions)
	selection.Labels = plan.ParentUIDLabel
	c.revisions = c.tools.Store.Watch(selection, c.revisionChanged)
	c.AddWatch(selection, c.revisions)
}

// revisionChanged enqueues the parent of a changed revision.
func (c *Controller) revisionChanged(e cache.Event) {
	c.AwaitWatches()
	if e.Old != nil && e.New != nil && e.Old.Digest() == e.New.Digest() {
		return
	}
	if e.New == nil {
		c.enqueueNameWaiters(e.Old)
		c.enqueueOwner(e.Old)
		return
	}
	c.enqueueOwner(e.New)
}

// storeRevisions stores which children follow which revision, before anything is written to the
// children. It reports whether there was anything to store.
func (r *run) storeRevisions(ctx context.Context) (bool, error) {
	if r.rollout == nil || r.rollout.writes.Empty() {
		return false, nil
	}
	if !r.StillExists() {
		return false, controller.ErrConflict
	}
	r.Record.Planned(r.rollout.writes, 0)
	for _, stage := range r.rollout.writes.Stages {
		// The stages depend on each other: stop at the first that fails.
		for _, result := range r.applyPlan(ctx, plan.Plan{Stages: [][]plan.Action{stage}}) {
			if err := r.observeRevision(ctx, result); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

func (r *run) observeRevision(ctx context.Context, result apply.Result) error {
	action, err := result.Action, result.Err
	switch {
	case err == nil && result.Stored == nil:
		r.revisions.ObserveDelete(action.Before)
	case err == nil:
		r.revisions.ObserveWrite(result.Stored)
	case apply.AlreadyExists(err):
		return r.handleExistingRevision(ctx, action)
	case apply.NotFound(err) && action.Before != nil:
		r.revisions.ObserveDelete(action.Before)
		return controller.ErrConflict
	case apply.Conflict(err):
		return controller.ErrConflict
	default:
		return failure.WithReason(ReasonRolloutFailed, err)
	}
	r.Log.Debug("revision written", "verb", string(action.Verb), "revision", action.Ref.String(),
		"parent", r.Stored.Ref().String(), "reason", action.Reason)
	return nil
}

// handleExistingRevision handles a create of a revision whose name is taken. It is the parent's own
// if the parent controls it: then the cache is behind, or the label was removed.
func (r *run) handleExistingRevision(ctx context.Context, action plan.Action) error {
	live, err := r.tools.Writer.Get(ctx, action.Resource, action.Ref.Namespace, action.Ref.Name)
	if apply.NotFound(err) {
		return controller.ErrConflict
	}
	if err != nil {
		return failure.WithReason(ReasonRolloutFailed, fmt.Errorf("create %s: it already exists; get it: %w", action.Ref, err))
	}
	switch {
	case live.Deleting():
		return r.waitForName(live, "is being deleted")
	case !live.ControlledBy(r.Stored.UID()):
		return r.waitForName(live, "does not belong to "+r.Stored.Ref().String()+"; delete it")
	case live.Labels().Get(plan.ParentUIDLabel) == r.Stored.UID():
		r.revisions.ObserveWrite(live)
		return controller.ErrConflict
	}
	return r.relabelRevision(ctx, live)
}

// relabelRevision restores the label that selects a revision.
func (r *run) relabelRevision(ctx context.Context, live *object.Object) error {
	labelled, err := live.With(fmt.Appendf(nil, "%q", r.Stored.UID()), "metadata", "labels", plan.ParentUIDLabel)
	if err != nil {
		return failure.WithReason(ReasonRolloutFailed, err)
	}
	began := r.Record.Now()
	stored, err := r.tools.Writer.Update(ctx, plan.ControllerRevisions, labelled)
	r.Record.Wrote(began, record.Write{Resource: plan.ControllerRevisions, Part: "metadata", Before: live, After: stored, Err: err})
	if err != nil && !apply.Conflict(err) && !apply.NotFound(err) {
		return failure.WithReason(ReasonRolloutFailed, fmt.Errorf("label %s: %w", live.Ref(), err))
	}
	if err == nil {
		r.revisions.ObserveWrite(stored)
	}
	return controller.ErrConflict
}
