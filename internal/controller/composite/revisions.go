package composite

import (
	"context"
	"errors"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// watchRevisions starts the watch of revisions if a child rule is rolling.
func (c *Controller) watchRevisions() {
	if !c.program.Children.Rolling() {
		return
	}
	selection := cache.Selection{
		Resource: plan.ControllerRevisions, Namespace: c.program.RevisionNamespace(), Labels: plan.ParentUIDLabel,
		Managed: c.program.FullObjects,
	}
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
		r.ObserveDelete(action.Resource, action.Before)
	case err == nil:
		r.ObserveWrite(action.Resource, result.Stored)
	case apply.AlreadyExists(err):
		return r.handleExistingRevision(ctx, action)
	case apply.NotFound(err) && action.Before != nil:
		r.ObserveDelete(action.Resource, action.Before)
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
	live, err := r.readExisting(ctx, action)
	switch {
	case err != nil:
		return revisionError(err)
	case live.Deleting():
		return r.waitForName(live, "is being deleted")
	case !live.ControlledBy(r.Stored.UID()):
		return r.waitForName(live, "does not belong to "+r.Stored.Ref().String()+"; delete it")
	case live.Labels().Get(plan.ParentUIDLabel) == r.Stored.UID():
		r.ObserveWrite(action.Resource, live)
		return controller.ErrConflict
	}
	return revisionError(r.relabel(ctx, action.Resource, live, plan.ParentUIDLabel))
}

// revisionError returns the error of a run that met a revision which the cache did not have.
func revisionError(err error) error {
	if err == nil || errors.Is(err, controller.ErrConflict) {
		return controller.ErrConflict
	}
	return failure.WithReason(ReasonRolloutFailed, err)
}
