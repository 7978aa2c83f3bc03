package composite

import (
	"errors"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/guard"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

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

func (r *run) id() controller.ObjectID { return r.ID(r.Item.Key) }

// unexplainedDeletions returns the deletions that only the hook response explains, not an edit of
// the parent's spec. An edit does not explain deletions that were held before it, nor those of another version.
func (r *run) unexplainedDeletions(todo plan.Plan) []plan.Action {
	removals, edits := todo.Removals(), &r.memory.edits
	if r.memory.version != r.logic.Version {
		edits.Forget()
	}
	if edits.Explain(r.Stored, r.program.storesStatus(), r.tools.Now()) {
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

// CountAllChildren counts the cached children of all parents.
func (c *Controller) CountAllChildren() int { return c.countChildren(false) }

// countChildren counts the cached children of all parents, or of those that have moved in a rollout.
func (c *Controller) countChildren(moved bool) int {
	n := 0
	for parent := range c.parents.All() {
		if c.PhaseOf(parent) == controller.PhaseIgnored || moved && !c.Router.Of(parent).Moved {
			continue
		}
		n += c.countOwned(parent)
	}
	return n
}
