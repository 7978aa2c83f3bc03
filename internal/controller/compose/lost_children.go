package compose

import (
	"context"
	"fmt"
	"strings"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// lostChildren remembers the children that went out of sight without having been seen
// to be deleted. Where children are watched by the label that makes them ours, one
// from which somebody takes it looks just like one that is gone; but it is there,
// still owned, and if it is not wanted any more nobody would ever delete it.
type lostChildren struct {
	mu       sync.Mutex
	byParent map[queue.Key][]lostChild
}

// lostChild is one such child.
type lostChild struct {
	resource             object.Resource
	namespace, name, uid string
}

func newLostChildren() *lostChildren { return &lostChildren{byParent: map[queue.Key][]lostChild{}} }

// add remembers a child that is out of sight. The strings of an object are
// views of all of it.
func (s *lostChildren) add(parent queue.Key, resource object.Resource, child *object.Object) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byParent[parent] = append(s.byParent[parent], lostChild{
		resource, strings.Clone(child.Namespace()), strings.Clone(child.Name()), strings.Clone(child.UID()),
	})
}

// take returns the strays of a parent and forgets them.
func (s *lostChildren) take(parent queue.Key) []lostChild {
	s.mu.Lock()
	defer s.mu.Unlock()
	taken := s.byParent[parent]
	delete(s.byParent, parent)
	return taken
}

// putBack has strays looked for once more.
func (s *lostChildren) putBack(parent queue.Key, again []lostChild) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.byParent[parent] = append(s.byParent[parent], again...)
}

// noteLostChild notes a child that vanished from a watch by label. Who stands by would
// note for ever, and nobody would look.
func (c *Controller) noteLostChild(child *object.Object) {
	if !c.program.GenerateSelector || !c.active.Load() || child.Deleting() {
		return
	}
	parent := c.ownerOf(child)
	if parent == nil {
		return
	}
	for _, kind := range c.children {
		if kind.rule.Resource.GroupKind() == child.GroupKind() {
			c.lostChildren.add(keyOf(parent), kind.rule.Resource, child)
		}
	}
}

// recoverLostChildren brings strays back into sight: the children that are still there and
// still owned get their label again.
func (r *run) recoverLostChildren(ctx context.Context) error {
	all := r.lostChildren.take(r.item.Key)
	for i, one := range all {
		err := r.recoverLostChild(ctx, one)
		if apply.Forbidden(err) {
			// What else there is to do need not wait for the permission.
			r.lostChildren.putBack(r.item.Key, all[i:i+1])
			continue
		}
		if err != nil {
			r.lostChildren.putBack(r.item.Key, all[i:])
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
		return failure.WithReason(ReasonWriteFailed, fmt.Errorf("look for %s %s, which is out of sight: %w", one.resource.Kind, one.name, err))
	}
	// With another label it is not lost but let go.
	lost := live.ControlledBy(r.stored.UID()) && !live.Labels().Has(plan.UIDLabel)
	if live.UID() != one.uid || !lost || live.Deleting() {
		return nil
	}
	return r.relabel(ctx, one.resource, live)
}
