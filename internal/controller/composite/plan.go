package composite

import (
	"context"
	"errors"
	"fmt"
	"slices"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// buildPlan plans the children of the response and applies its status to the parent. It validates
// the whole response first.
func (r *run) buildPlan() (plan.Plan, error) {
	desired, ignored, err := r.planner.Desired(r.response.Children)
	if err != nil {
		return plan.Plan{}, hookFailure(hookName(r.Phase), plan.Malformed(err))
	}
	r.response.Events = append(slices.Clone(r.response.Events), warnings(ignored)...)
	desired = r.withoutUnserved(desired)
	desired, moved, err := r.rollout.planUpdate(desired, r.response)
	if err != nil {
		return plan.Plan{}, err
	}
	r.updatedChildren += moved
	overlaid, err := r.status.overlay(r.response)
	if err != nil {
		return plan.Plan{}, hookFailure(hookName(r.Phase), err)
	}
	var todo plan.Plan
	if !leavesChildren(r.Phase, r.Stored) {
		if todo, err = r.planner.Changes(r.family.observedChildren(), desired, r.memory.upToDate.contains); err != nil {
			return plan.Plan{}, hookFailure(hookName(r.Phase), plan.Malformed(err))
		}
	}
	r.status.wanted = overlaid
	if r.program.Conditions {
		r.memory.hookConditions = plan.HookConditions(r.response)
	}
	return todo, nil
}

// warnings are the events about the parts of the response that are ignored.
func warnings(ignored []plan.Ignored) (all []hook.Event) {
	for _, part := range ignored {
		reason := ReasonNamespaceIgnored
		if part.Undeclared != (object.GroupKind{}) {
			reason = ReasonChildUndeclared
		}
		all = append(all, hook.Event{Type: controller.Warning, Reason: reason, Message: part.Path + ": ignored: " + part.Problem})
	}
	return all
}

// withoutUnserved leaves out desired children of kinds that are not served any more. They make the run fail once
// the others are as desired, but not in a deletion, which must not wait for them.
func (r *run) withoutUnserved(desired []plan.Child) []plan.Child {
	r.unservedErr = nil
	return slices.DeleteFunc(desired, func(child plan.Child) bool {
		if child.Rule.Resource.Unserved && r.Phase != controller.PhaseFinalizing {
			r.unservedErr = failure.WithReason(setpoint.ReasonResourceNotFound,
				fmt.Errorf("%s: %s: %w any more; all other children are up to date",
					child.Object.Ref(), child.Rule.Resource, served.ErrNotServed))
		}
		return child.Rule.Resource.Unserved
	})
}

// apply writes the plan. It marks the input as synced if there was nothing to write.
func (r *run) apply(ctx context.Context, todo plan.Plan) error {
	r.memory.syncedInput = 0
	kept, err := r.rollout.storeRevisions(ctx)
	if err != nil {
		return err
	}
	whole := r.throttle(todo)
	todo = r.guardDeletions(whole)
	r.Record.Planned(r.guarded.Recorded(todo), r.family.unwritten(whole))
	if !todo.Empty() {
		if !r.StillExists() {
			return controller.ErrConflict
		}
		r.memory.hasWritten = true
		r.memory.skipUpdates(todo)
		if err := r.observeResults(ctx, r.writes.apply(ctx, todo)); err != nil {
			return err
		}
	}
	r.memory.upToDate.grow(len(todo.Equal))
	for _, same := range todo.Equal {
		r.memory.upToDate.add(same.Observed, same.Desired)
	}
	if r.rollout != nil && r.rollout.err != nil {
		return r.rollout.err
	}
	if todo.Empty() && !kept || r.dry != nil {
		// After a write the hook is called again with the result. A dry run shows what it has responded now.
		r.memory.syncedInput = r.inputDigest
	}
	return nil
}

// guardDeletions removes from a plan the deletions that the guard holds or delays.
func (r *run) guardDeletions(todo plan.Plan) plan.Plan {
	r.guarded = guard.Decision{}
	if r.Phase != controller.PhaseManaged {
		r.deletionGuard.Drop(r.ID(r.Item.Key))
		return todo
	}
	removed := r.unexplainedDeletions(todo)
	if r.dry != nil {
		r.dry.removals = removed // Whether they are too many depends on other parents.
		return todo
	}
	confirms := plan.Annotation(r.Stored, setpoint.AnnotationAllowDeletions)
	if r.guarded = r.deletionGuard.Decide(r.ID(r.Item.Key), r.Router.Of(r.Stored).Moved, removed, confirms); len(r.guarded.Withheld) == 0 {
		return todo
	}
	return todo.Without(removed)
}

// unexplainedDeletions returns the deletions that only the hook response explains, not an edit of
// the parent's spec. An edit does not explain deletions that were held before it, nor those of another version.
func (r *run) unexplainedDeletions(todo plan.Plan) []plan.Action {
	removals, edits := todo.Removals(), &r.memory.edits
	if r.memory.version != r.logic.Version {
		edits.Forget()
	}
	if edits.Explain(r.Stored, r.program.storesStatus(), r.Tools.Now()) {
		return r.deletionGuard.FilterHeld(r.ID(r.Item.Key), removals)
	}
	return removals
}

// storesStatus reports whether the status of the parents is the controller's: that of custom resources of composites.
func (p *Program) storesStatus() bool { return !p.isDecorator() && p.Parent.Custom && p.Parent.Status }

// withheldError returns the error of a run whose deletions are withheld; nil if there are none.
func (r *run) withheldError() error {
	err := r.guarded.Err()
	if err == nil {
		return nil
	}
	r.memory.syncedInput = 0
	if _, waits := errors.AsType[*guard.PendingError](err); waits {
		return err
	}
	return failure.WithReason(ReasonDeletionsHeld, err)
}

// CountChildren counts the cached children of all parents, or of those that have moved in a rollout.
func (c *Controller) CountChildren(moved bool) int {
	n := 0
	for parent := range c.Managed() {
		if !moved || c.Router.Of(parent).Moved {
			n += c.countOwned(parent)
		}
	}
	return n
}
