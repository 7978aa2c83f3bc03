package composite

import (
	"context"
	"fmt"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/selector"
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
	var err error
	if r.planner.Selector, err = selector.Of(r.Stored, r.program.GenerateSelector); err != nil {
		return failure.WithReason(ReasonInvalidParent, err)
	}
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

// lostChild is a child that disappeared from a watch by label. It may be deleted, or only have lost
// the label: then it still exists and is still owned, and without its label it would never be
// deleted.
type lostChild struct {
	resource             object.Resource
	namespace, name, uid string
}

// addLost remembers lost children of a parent for its next run.
func (c *Controller) addLost(parent queue.Key, lost ...lostChild) {
	c.lostChildren.Edit(func(all map[queue.Key][]lostChild) { all[parent] = append(all[parent], lost...) })
}

// noteLostChild remembers a child that disappeared from a watch by label. Standby controllers skip
// it: they have no runs that would look for it.
func (c *Controller) noteLostChild(child *object.Object) {
	if !c.program.GenerateSelector || !c.Running() || child.Deleting() {
		return
	}
	parent := c.ownerOf(child)
	if parent == nil {
		return
	}
	for _, kind := range c.children {
		if kind.rule.Resource.GroupKind() == child.GroupKind() {
			// The strings are slices of the whole object.
			c.addLost(controller.KeyOf(parent), lostChild{
				kind.rule.Resource, strings.Clone(child.Namespace()), strings.Clone(child.Name()), strings.Clone(child.UID()),
			})
		}
	}
}

// recoverLostChildren restores the label of lost children that still exist and are still owned.
func (r *run) recoverLostChildren(ctx context.Context) error {
	all := r.lostChildren.Take(r.Item.Key)
	for i, one := range all {
		err := r.recoverLostChild(ctx, one)
		if apply.Forbidden(err) {
			// Missing permissions do not stop the rest of the run.
			r.addLost(r.Item.Key, one)
			continue
		}
		if err != nil {
			r.addLost(r.Item.Key, all[i:]...)
			return err
		}
	}
	return nil
}

func (r *run) recoverLostChild(ctx context.Context, one lostChild) error {
	live, err := r.writer().Get(ctx, one.resource, one.namespace, one.name)
	if apply.NotFound(err) {
		return nil
	}
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("get lost child %s %s: %w", one.resource.Kind, one.name, err))
	}
	// A child with another label was released on purpose.
	lost := live.ControlledBy(r.Stored.UID()) && !live.Labels().Has(plan.UIDLabel)
	if live.UID() != one.uid || !lost || live.Deleting() {
		return nil
	}
	return r.relabel(ctx, one.resource, live, plan.UIDLabel)
}
