package engine

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// calm takes out of a plan what would be written to children that are to be
// left alone for a while, and comes back to them afterwards.
func (r *run) calm(todo plan.Plan) plan.Plan {
	calm, until := r.memory.flapping.Calm(todo, r.tools.Now())
	if !until.IsZero() {
		r.queue.AddAfter(r.item.Key, queue.Cause{Kind: queue.Recheck}, until.Sub(r.tools.Now()))
	}
	if first, there := calm.First(); there {
		r.latest = first.Ref.String() + ": " + first.Reason
		r.latestAt = []trace.Place{{Resource: first.Resource, Namespace: strings.Clone(first.Ref.Namespace)}}
	}
	return calm
}

// watchFits notes a write, and says so when the same one was made too often.
func (r *run) watchFits(ctx context.Context, action plan.Action) {
	if !r.memory.flapping.Wrote(action, r.tools.Now()) {
		return
	}
	if manager, err := r.tools.Writer.ChangedBy(ctx, action); err == nil {
		r.memory.flapping.ChangedBy(action, manager)
	}
	for _, fit := range r.memory.flapping.Fits(r.tools.Now()) {
		if fit.Ref == action.Ref {
			r.say(hook.Event{Type: warning, Reason: ReasonFlapping, Message: flaps(fit) +
				"; it is left alone until " + fit.Until.UTC().Format(time.TimeOnly)})
		}
	}
}

func flaps(fit plan.Fit) string {
	by := "another client changes it, or the API server does"
	if fit.Manager != "" {
		by = "the field manager " + fit.Manager + " changes it"
	}
	return fmt.Sprintf("%s: %s again and again, although the response of the hook is the same: %s", fit.Ref, fit.Reason, by)
}

// unrest is what of a parent does not settle; without words if all does.
func (r *run) unrest(err error) unrest {
	if err != nil && reasonOf(err) == ReasonUnsettled {
		return unrest{failure.OneLine(err), r.latestAt}
	}
	fits := r.memory.flapping.Fits(r.tools.Now())
	if len(fits) == 0 {
		return unrest{}
	}
	// Nothing else may happen that shows that it is over.
	r.queue.AddAfter(r.item.Key, queue.Cause{Kind: queue.Recheck}, fits[0].Over.Sub(r.tools.Now()))
	return unrest{flaps(fits[0]), r.placesOf(fits[0].Ref)}
}

// placesOf is where a child may be: two of its kinds may have one name.
func (r *run) placesOf(child object.Ref) (all []trace.Place) {
	for _, kind := range r.Controller.children {
		if kind.rule.Resource.Kind == child.Kind {
			all = append(all, trace.Place{Resource: kind.rule.Resource, Namespace: strings.Clone(child.Namespace)})
		}
	}
	return all
}
