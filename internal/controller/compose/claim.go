package compose

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// claim is the step that finds the parent's children, takes in orphans that
// match its selector and lets go of children that do not.
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

// resolveSelector settles how the children are recognised.
func (r *run) resolveSelector() error {
	if r.planner.Selector != nil || r.program.isDecorator() {
		return nil
	}
	selector, err := selectorOf(r.stored, r.program.GenerateSelector)
	if err != nil {
		return failure.WithReason(ReasonInvalidParent, err)
	}
	r.planner.Selector = selector
	return nil
}

// listChildren reads the children from the caches. It returns the writes that
// claiming takes.
func (r *run) listChildren() ([]plan.Action, error) {
	var changes []plan.Action
	r.children, r.storedRevisions = r.children[:0], r.revisionsOf(r.stored)
	for _, kind := range r.Controller.children {
		claim, err := r.planner.Claim(kind.rule.Resource, kind.view.Owned(r.stored.UID()), r.orphans(kind))
		if err != nil {
			return nil, failure.WithReason(ReasonWriteFailed, fmt.Errorf("claim %s: %w", kind.rule.Resource, err))
		}
		r.children = append(r.children, claim.Children)
		changes = append(changes, claim.Changes...)
	}
	return changes, nil
}

// orphans are the objects of a kind that nobody owns and the parent's selector
// matches. A decorator takes nobody in, and who is finalized no more.
func (r *run) orphans(kind childKind) []*object.Object {
	if r.program.isDecorator() || r.phase == phaseFinalizing {
		return nil
	}
	return kind.view.Orphans(r.stored.Namespace(), r.planner.Selector)
}

// applyClaims writes them, once it is sure that the cached parent is not one
// that has been deleted meanwhile: its children would be collected with it.
func (r *run) applyClaims(ctx context.Context, changes []plan.Action) error {
	live, err := r.tools.Writer.Get(ctx, r.program.Parent, r.stored.Namespace(), r.stored.Name())
	if apply.NotFound(err) {
		return errConflict
	}
	if err != nil {
		return failure.WithReason(ReasonWriteFailed, fmt.Errorf("read %s before claiming children: %w", r.stored.Ref(), err))
	}
	if live.UID() != r.stored.UID() || live.Deleting() {
		return errConflict
	}
	claims := plan.Plan{Stages: [][]plan.Action{changes}}
	r.record.Planned(claims, 0)
	return r.observeResults(ctx, r.applyPlan(ctx, claims))
}

// observed are the children of all kinds in one list.
func (r *run) observed() []*object.Object {
	var all []*object.Object
	for _, children := range r.children {
		all = append(all, children...)
	}
	return all
}
