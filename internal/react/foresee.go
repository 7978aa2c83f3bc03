package react

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Foreplan is one write of another object that an answer asks for.
type Foreplan struct {
	plan.Action
	// Evict says of a deletion that the pod would be evicted.
	Evict bool
}

// answerInThought asks a handler and finds out what its answer would write. It
// returns what is owed then; nil if there is nothing to be stored of the object.
func (r *run) answerInThought(ctx context.Context, c call, into *Foreseen, ask bool) *owed {
	if !ask {
		return nil
	}
	var o *owed
	if o, into.Err = r.tellOne(ctx, c); into.Err != nil {
		into.GaveUp = r.memory.handlers[c.handler].reason == ReasonGaveUp
		return nil
	}
	into.Answer = o.answer
	h := &hands{Controller: r.Controller, object: r.stored}
	if into.Writes, into.Err = h.foresee(ctx, o); into.Err == nil {
		return o
	}
	if into.GaveUp = hook.Terminal(into.Err); into.GaveUp {
		r.dismiss(o, into.Err)
	}
	return nil
}

// foresee finds out what carrying an answer out would write, in its order.
func (h *hands) foresee(ctx context.Context, o *owed) ([]Foreplan, error) {
	if err := h.resolve(ctx, o); err != nil {
		return nil, err
	}
	var writes []Foreplan
	for _, t := range o.targets {
		action := plan.Action{Verb: plan.Delete, Resource: t.resource, Ref: t.object.Ref(), Before: t.object}
		if t.selector != "" {
			action.Reason = "matches " + t.selector
		}
		writes = append(writes, Foreplan{Action: action, Evict: t.evict})
	}
	for _, a := range o.answer.Apply {
		action, err := h.foreseeApply(ctx, a)
		if err != nil {
			return nil, err
		}
		writes = append(writes, Foreplan{Action: action})
	}
	return writes, nil
}

func (h *hands) foreseeApply(ctx context.Context, a hook.Applied) (plan.Action, error) {
	resource, wanted, err := h.wanted(a)
	if err != nil {
		return plan.Action{}, err
	}
	before, err := h.tools.Writer.Get(ctx, resource, wanted.Namespace(), wanted.Name())
	if err != nil && !apply.Gone(err) {
		return plan.Action{}, fmt.Errorf("read %s before applying it: %w", wanted.Ref(), err)
	}
	action := plan.Action{Verb: plan.Create, Resource: resource, Ref: wanted.Ref(), After: wanted, Manager: h.program.Manager}
	if err == nil {
		action.Verb, action.Before = plan.Apply, before
		if _, watched := h.known(resource, wanted); watched && h.isOwned(wanted) && !h.isOwned(before) {
			if err := h.mayTake(ctx, resource, wanted); err != nil {
				return plan.Action{}, fmt.Errorf("apply %s: %w", wanted.Ref(), err)
			}
		}
	}
	return action, nil
}

// storedInThought is the object with all that would be stored of it, and whether the
// record would be another one.
func (r *run) storedInThought(carried []*owed) (o *object.Object, recorded bool, err error) {
	whole := tree(r.stored.JSON())
	if r.program.Resource.Status {
		if status := r.statusPatch(carried); len(status) > 0 {
			whole = merged(whole, map[string]any{"status": status})
		}
	}
	accounts := r.accounts(carried)
	whole = merged(whole, combined(r.contentPatch(carried), map[string]any{"metadata": accounts}))
	o, err = objectOf(whole)
	return o, accounts["annotations"] != nil, err
}
