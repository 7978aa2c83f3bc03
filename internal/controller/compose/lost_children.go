package compose

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// lostChildren remembers children that disappeared from a watch by label. They may be deleted, or
// only have lost the label: then they still exist and are still owned, and without their label they
// would never be deleted.
type lostChildren struct {
	mu       sync.Mutex
	byParent map[queue.Key][]lostChild
}

type lostChild struct {
	resource             object.Resource
	namespace, name, uid string
}

func newLostChildren() *lostChildren { return &lostChildren{byParent: map[queue.Key][]lostChild{}} }

// add remembers a child. It clones the strings, which are slices of the whole object.
func (s *lostChildren) add(parent queue.Key, resource object.Resource, child *object.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byParent[parent] = append(s.byParent[parent], lostChild{
		resource, strings.Clone(child.Namespace()), strings.Clone(child.Name()), strings.Clone(child.UID()),
	})
}

// take removes and returns the lost children of a parent.
func (s *lostChildren) take(parent queue.Key) []lostChild {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.byParent[parent]
	delete(s.byParent, parent)
	return taken
}

// putBack adds lost children again for the next run.
func (s *lostChildren) putBack(parent queue.Key, again []lostChild) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byParent[parent] = append(s.byParent[parent], again...)
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
			c.lostChildren.add(controller.KeyOf(parent), kind.rule.Resource, child)
		}
	}
}

// recoverLostChildren restores the label of lost children that still exist and are still owned.
func (r *run) recoverLostChildren(ctx context.Context) error {
	all := r.lostChildren.take(r.Item.Key)
	for i, one := range all {
		err := r.recoverLostChild(ctx, one)
		if apply.Forbidden(err) {
			// Missing permissions do not stop the rest of the run.
			r.lostChildren.putBack(r.Item.Key, all[i:i+1])
			continue
		}
		if err != nil {
			r.lostChildren.putBack(r.Item.Key, all[i:])
			return err
		}
	}
	return nil
}

func (r *run) recoverLostChild(ctx context.Context, one lostChild) error {
	live, err := r.tools.Writer.Get(ctx, one.resource, one.namespace, one.name)
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
