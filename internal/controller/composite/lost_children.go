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
)

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
