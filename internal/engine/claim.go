package engine

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
	if err := r.recognise(); err != nil {
		return err
	}
	if err := r.retrieve(ctx); err != nil {
		return err
	}
	changes, err := r.lookAround()
	if err != nil || len(changes) == 0 {
		return err
	}
	if err := r.settleClaims(ctx, changes); err != nil {
		return err
	}
	_, err = r.lookAround()
	return err
}

// recognise settles how the children are recognised.
func (r *run) recognise() error {
	if r.family.Selector != nil || r.program.decorates() {
		return nil
	}
	selector, err := selectorOf(r.stored, r.program.GenerateSelector)
	if err != nil {
		return failure.New(ReasonInvalidSpec, err)
	}
	r.family.Selector = selector
	return nil
}

// lookAround reads the children from the caches. It returns the writes that
// claiming takes.
func (r *run) lookAround() ([]plan.Action, error) {
	var changes []plan.Action
	r.children, r.kept = r.children[:0], r.revisionsOf(r.stored)
	for _, kind := range r.Controller.children {
		claim, err := r.family.Claim(kind.rule.Resource, kind.view.Owned(r.stored.UID()), r.orphans(kind))
		if err != nil {
			return nil, failure.New(ReasonWriteFailed, fmt.Errorf("claim %s: %w", kind.rule.Resource, err))
		}
		r.children = append(r.children, claim.Children)
		changes = append(changes, claim.Changes...)
	}
	return changes, nil
}

// orphans are the objects of a kind that nobody owns and the parent's selector
// matches. A decorator takes nobody in, and who is finalized no more.
func (r *run) orphans(kind kind) []*object.Object {
	if r.program.decorates() || r.stance == finalizing {
		return nil
	}
	return kind.view.Orphans(r.stored.Namespace(), r.family.Selector)
}

// settleClaims writes them, once it is sure that the cached parent is not one
// that has been deleted meanwhile: its children would be collected with it.
func (r *run) settleClaims(ctx context.Context, changes []plan.Action) error {
	live, err := r.tools.Writer.Get(ctx, r.program.Parent, r.stored.Namespace(), r.stored.Name())
	if apply.Gone(err) {
		return errMoved
	}
	if err != nil {
		return failure.New(ReasonWriteFailed, fmt.Errorf("read %s before claiming children: %w", r.stored.Ref(), err))
	}
	if live.UID() != r.stored.UID() || live.Deleting() {
		return errMoved
	}
	claims := plan.Plan{Stages: [][]plan.Action{changes}}
	r.account.Planned(claims, 0)
	return r.absorb(ctx, r.carried(ctx, claims))
}

// observed are the children of all kinds in one list.
func (r *run) observed() []*object.Object {
	var all []*object.Object
	for _, children := range r.children {
		all = append(all, children...)
	}
	return all
}
