package handler

import (
	"context"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// DryRunWrite is one write of another object by a response.
type DryRunWrite struct {
	plan.Action
	// Evict means that the pod would be evicted.
	Evict bool
}

// dryRunCall calls a handler and finds what its response would write. It returns the pending
// response; nil if nothing of the object would be stored.
func (r *run) dryRunCall(ctx context.Context, c call, into *DryRunCall, makeCalls bool) *pendingResponse {
	if !makeCalls {
		return nil
	}
	var o *pendingResponse
	if o, into.Err = r.makeCall(ctx, c); into.Err != nil {
		into.GaveUp = c.handler.failed != nil && c.handler.failed.reason == ReasonGaveUp
		return nil
	}
	into.Response = o.response
	if o.response.NotApplicable {
		return nil
	}
	if into.Writes, into.Err = r.dryRunWrites(ctx, o); into.Err == nil {
		into.Err = o.response.Err
		into.GaveUp = o.failed != nil && o.failed.reason == ReasonGaveUp
		return o
	}
	if into.GaveUp = hook.IsTerminal(into.Err); into.GaveUp {
		r.dropRefused(o, into.Err)
	}
	return nil
}

// dryRunWrites returns the writes that applying a response would make, in order.
func (r *run) dryRunWrites(ctx context.Context, o *pendingResponse) ([]DryRunWrite, error) {
	if err := r.resolveDeletions(ctx, o); err != nil {
		return nil, err
	}
	var writes []DryRunWrite
	for _, t := range o.targets {
		action := plan.Action{Verb: plan.Delete, Resource: t.resource, Ref: t.object.Ref(), Before: t.object}
		if t.selector != "" {
			action.Reason = "matches " + t.selector
		}
		writes = append(writes, DryRunWrite{Action: action, Evict: t.evict})
	}
	for _, a := range o.response.Apply {
		action, err := r.dryRunApply(ctx, a)
		if err != nil {
			return nil, err
		}
		writes = append(writes, DryRunWrite{Action: action})
	}
	return writes, nil
}

func (r *run) dryRunApply(ctx context.Context, a hook.AppliedObject) (plan.Action, error) {
	resource, desired, err := r.desiredObject(a)
	if err != nil {
		return plan.Action{}, err
	}
	before, err := r.writer().Get(ctx, resource, desired.Namespace(), desired.Name())
	if err != nil && !apply.NotFound(err) {
		return plan.Action{}, fmt.Errorf("read %s before applying it: %w", desired.Ref(), err)
	}
	action := plan.Action{Verb: plan.Create, Resource: resource, Ref: desired.Ref(), After: desired, Manager: r.program.Manager}
	if err == nil {
		action.Verb, action.Before = plan.Apply, before
		if _, watched := r.watchedObject(resource, desired); watched && r.isOwned(desired) && !r.isOwned(before) {
			if err := r.checkOwnership(ctx, resource, desired); err != nil {
				return plan.Action{}, fmt.Errorf("apply %s: %w", desired.Ref(), err)
			}
		}
	}
	return action, nil
}

// dryRunObject returns the object after all writes, and whether the record would change.
func (r *run) dryRunObject(applied []*pendingResponse) (o *object.Object, recorded bool, err error) {
	whole := decodeObject(r.Stored.JSON())
	if r.program.Resource.Status {
		if status := r.statusPatch(applied); len(status) > 0 {
			whole = object.MergePatch(whole, map[string]any{"status": status})
		}
	}
	accounts := r.metadataPatch(applied)
	whole = object.MergePatch(whole, object.CombinePatches(r.contentPatch(applied), map[string]any{"metadata": accounts}))
	o, err = object.Encode(whole)
	return o, accounts["annotations"] != nil, err
}
