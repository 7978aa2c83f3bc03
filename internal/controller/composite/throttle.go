package composite

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// throttle removes writes to flapping children from a plan and requeues the parent for when they
// are allowed again.
func (r *run) throttle(todo plan.Plan) plan.Plan {
	throttled, until := r.memory.flapping.Throttle(todo, r.tools.Now())
	if !until.IsZero() {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, until.Sub(r.tools.Now()))
	}
	if first, there := throttled.First(); there {
		r.latestWrite = first.Ref.String() + ": " + first.Reason
		r.latestLocations = []record.Location{{Resource: first.Resource, Namespace: strings.Clone(first.Ref.Namespace)}}
	}
	return throttled
}

// detectFlapping counts a write and sends an event if a child is flapping.
func (r *run) detectFlapping(ctx context.Context, action plan.Action) {
	if !r.memory.flapping.RecordWrite(action, r.tools.Now()) {
		return
	}
	if manager, err := r.writer().LastManager(ctx, action); err == nil {
		r.memory.flapping.SetManager(action, manager)
	}
	for _, flapping := range r.memory.flapping.Children(r.tools.Now()) {
		if flapping.Ref == action.Ref {
			r.SendEvent(hook.Event{Type: controller.Warning, Reason: ReasonFlapping, Message: flappingMessage(flapping) +
				"; next write at " + flapping.Until.UTC().Format(time.TimeOnly)})
		}
	}
}

func flappingMessage(flapping plan.FlappingChild) string {
	by := "another client or the API server changes it"
	if flapping.Manager != "" {
		by = "the field manager " + flapping.Manager + " changes it"
	}
	return fmt.Sprintf("%s: %s repeatedly, although the hook response is unchanged: %s", flapping.Ref, flapping.Reason, by)
}

// conflict returns what does not converge; zero if all does.
func (r *run) conflict(err error) controller.Conflict {
	if err != nil && controller.ReasonOf(err) == ReasonConflicting {
		return controller.Conflict{Message: failure.OneLine(err), Locations: r.latestLocations}
	}
	fits := r.memory.flapping.Children(r.tools.Now())
	if len(fits) == 0 {
		return controller.Conflict{}
	}
	// No other event may show that the flapping has ended.
	r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, fits[0].ExpiresAt.Sub(r.tools.Now()))
	return controller.Conflict{Message: flappingMessage(fits[0]), Locations: r.locationsOf(fits[0].Ref)}
}

// locationsOf returns where a child may be: two kinds of children may have the same kind name.
func (r *run) locationsOf(child object.Ref) (all []record.Location) {
	for _, kind := range r.Controller.children {
		if kind.rule.Resource.GroupKind() == child.GroupKind() {
			all = append(all, record.Location{Resource: kind.rule.Resource, Namespace: strings.Clone(child.Namespace)})
		}
	}
	return all
}
