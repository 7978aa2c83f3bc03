package engine

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/store"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// watchRevisions starts the watch of revisions, if any child may have to wait for
// its turn.
func (c *Controller) watchRevisions() {
	if !c.program.Children.Rolling() {
		return
	}
	selection := c.within(plan.ControllerRevisions)
	selection.Labels = plan.ParentUIDLabel
	c.revisions = c.tools.Store.Watch(selection, c.revisionChanged)
}

// revisionChanged queues the parent whose revision somebody else has changed.
func (c *Controller) revisionChanged(e store.Event) {
	<-c.opened
	if e.Old != nil && e.New != nil && e.Old.Digest() == e.New.Digest() {
		return
	}
	if e.New == nil {
		c.wakeWaiting(e.Old)
		c.wakeOwner(e.Old)
		return
	}
	c.wakeOwner(e.New)
}

// keep is the step that stores which children follow which revision. Nothing is
// done about the children before all of it is stored. It says whether there was
// anything to store.
func (r *run) keep(ctx context.Context) (bool, error) {
	if r.rollout == nil || r.rollout.writes.Empty() {
		return false, nil
	}
	if !r.still() {
		return false, errMoved
	}
	r.account.Planned(r.rollout.writes, 0)
	for _, stage := range r.rollout.writes.Stages {
		// One stage stands on the other: the results of one decide on the next.
		for _, result := range r.carried(ctx, plan.Plan{Stages: [][]plan.Action{stage}}) {
			if err := r.absorbRevision(ctx, result); err != nil {
				return true, err
			}
		}
	}
	return true, nil
}

func (r *run) absorbRevision(ctx context.Context, result apply.Result) error {
	action, err := result.Action, result.Err
	switch {
	case err == nil && result.Stored == nil:
		r.revisions.Removed(action.Before)
	case err == nil:
		r.revisions.Wrote(result.Stored)
	case apply.Exists(err):
		return r.meetRevision(ctx, action)
	case apply.Gone(err) && action.Before != nil:
		r.revisions.Removed(action.Before)
		return errMoved
	case apply.Conflict(err):
		return errMoved
	default:
		return failure.New(ReasonRolloutFailed, err)
	}
	r.log.Debug("revision written", "verb", string(action.Verb), "revision", action.Ref.String(),
		"parent", r.stored.Ref().String(), "reason", action.Reason)
	return nil
}

// meetRevision looks at the object that already has the name of a revision to be
// created. It is ours if it is the parent's: the cache has not seen it yet, or
// somebody has taken the label from it.
func (r *run) meetRevision(ctx context.Context, action plan.Action) error {
	live, err := r.tools.Writer.Get(ctx, action.Resource, action.Ref.Namespace, action.Ref.Name)
	if apply.Gone(err) {
		return errMoved
	}
	if err != nil {
		return failure.New(ReasonRolloutFailed, fmt.Errorf("create %s: it exists; read it: %w", action.Ref, err))
	}
	switch {
	case live.Deleting():
		return r.await(live, "is being deleted")
	case !live.ControlledBy(r.stored.UID()):
		return r.await(live, "does not belong to "+r.stored.Ref().String()+"; delete it")
	case live.Labels().Get(plan.ParentUIDLabel) == r.stored.UID():
		r.revisions.Wrote(live)
		return errMoved
	}
	return r.relabelRevision(ctx, live)
}

// relabelRevision gives back to a revision the label by which it is found.
func (r *run) relabelRevision(ctx context.Context, live *object.Object) error {
	labelled, err := live.With(fmt.Appendf(nil, "%q", r.stored.UID()), "metadata", "labels", plan.ParentUIDLabel)
	if err != nil {
		return failure.New(ReasonRolloutFailed, err)
	}
	began := r.account.Now()
	stored, err := r.tools.Writer.Update(ctx, plan.ControllerRevisions, labelled)
	r.account.Wrote(began, trace.Write{Resource: plan.ControllerRevisions, Part: "metadata", Before: live, After: stored, Err: err})
	if err != nil && !apply.Conflict(err) && !apply.Gone(err) {
		return failure.New(ReasonRolloutFailed, fmt.Errorf("label %s: %w", live.Ref(), err))
	}
	if err == nil {
		r.revisions.Wrote(stored)
	}
	return errMoved
}
