package composite

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// claim finds the children of the parent. It adopts orphans that match the selector and releases
// children that no longer do.
func (r *run) claim(ctx context.Context) error {
	if err := r.resolveSelector(); err != nil {
		return err
	}
	if err := r.recoverLostChildren(ctx); err != nil {
		return err
	}
	changes, err := r.listChildren()
	if err != nil || len(changes) == 0 {
		return err
	}
	if err := r.applyClaims(ctx, changes); err != nil {
		return err
	}
	_, err = r.listChildren()
	return err
}

// resolveSelector sets the selector of the children.
func (r *run) resolveSelector() error {
	if r.planner.Selector != nil || r.program.isDecorator() {
		return nil
	}
	selector, err := selectorOf(r.Stored, r.program.GenerateSelector)
	if err != nil {
		return failure.WithReason(ReasonInvalidParent, err)
	}
	r.planner.Selector = selector
	return nil
}

// listChildren reads the children from the caches and returns the writes that adopt and release.
func (r *run) listChildren() ([]plan.Action, error) {
	var changes []plan.Action
	r.children, r.storedRevisions = r.children[:0], r.revisionsOf(r.Stored)
	for _, kind := range r.Controller.children {
		claim, err := r.planner.Claim(kind.rule.Resource, r.owned(kind), r.orphans(kind))
		if err != nil {
			return nil, failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("claim %s: %w", kind.rule.Resource, err))
		}
		r.children = append(r.children, claim.Children)
		changes = append(changes, claim.Changes...)
	}
	return changes, nil
}

// owned returns the objects of a kind that the parent controls.
func (r *run) owned(kind childKind) []*object.Object {
	if r.dry != nil {
		return r.dry.Owned(kind.rule.Resource, r.Stored.UID(), kind.watches.owned(r.Stored))
	}
	return kind.watches.owned(r.Stored)
}

// orphans returns the orphans of a kind that the parent's selector matches. Decorators and parents
// that are being finalized adopt nothing.
func (r *run) orphans(kind childKind) []*object.Object {
	if r.program.isDecorator() || r.Phase == controller.PhaseFinalizing {
		return nil
	}
	return kind.watches.orphans(r.Stored.Namespace(), r.planner.Selector)
}

// applyClaims adopts and releases. It first checks that the parent is not deleted: the garbage
// collector would delete adopted children with it.
func (r *run) applyClaims(ctx context.Context, changes []plan.Action) error {
	live, err := r.writer().Get(ctx, r.program.Parent, r.Stored.Namespace(), r.Stored.Name())
	if apply.NotFound(err) {
		return controller.ErrConflict
	}
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("read %s before adopting children: %w", r.Stored.Ref(), err))
	}
	if live.UID() != r.Stored.UID() || live.Deleting() {
		return controller.ErrConflict
	}
	claims := plan.Plan{Stages: [][]plan.Action{changes}}
	r.Record.Planned(claims, 0)
	return r.observeResults(ctx, r.applyPlan(ctx, claims))
}

// observed returns the children of all kinds.
func (r *run) observed() []*object.Object {
	var all []*object.Object
	for _, children := range r.children {
		all = append(all, children...)
	}
	return all
}
