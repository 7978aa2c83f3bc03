package composite

import (
	"context"
	"errors"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/identity"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/request"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// unread are related objects that a finalize hook does without, and why.
type unread struct {
	kinds []object.Resource
	why   []string
}

func (u *unread) add(resource object.Resource, err error) {
	u.kinds = append(u.kinds, resource)
	u.why = append(u.why, resource.String()+": "+failure.OneLine(err))
}

// relateFinalizing is relate in a deletion, which must not wait for what only a sync needs: a kind that is not
// served or must not be read is an empty group, and so is everything if the customize hook keeps failing.
func (r *run) relateFinalizing(ctx context.Context) error {
	var missing unread
	if r.memory.customizedParent != r.customizeDigest() {
		rules, err := r.callCustomize(ctx)
		switch {
		case err == nil:
			r.memory.finalizeRules, r.memory.customizeFailed = append([]hook.RelatedRule{}, rules...), false
		case r.givesUpCustomize(err):
			r.memory.customizeFailed = true
			missing.why = append(missing.why, failure.OneLine(err))
		default:
			return err
		}
	}
	if err := r.setReadable(ctx, &missing); err != nil {
		return err
	}
	for _, watch := range r.related.Pending(r.Item.Key) {
		switch {
		case request.IsForbiddenOrNotFound(watch.Err):
			missing.add(watch.Selection.Resource, watch.Err)
		case watch.Err != nil:
			return relatedError(watch.Err)
		default:
			return errRelatedPending
		}
	}
	r.relatedObjects = r.related.Snapshot(r.Item.Key).WithEmpty(missing.kinds)
	if len(missing.why) > 0 {
		r.SendOnce(hook.Event{Type: controller.Warning, Reason: ReasonRelatedMissing,
			Message: "the finalize hook is called without related objects: " + strings.Join(missing.why, "; ")})
	}
	return nil
}

// customizePatience is how many runs in a row may fail before the finalize hook is called without an answer of the
// customize hook.
const customizePatience = 3

// givesUpCustomize reports whether to go on although the customize hook fails. One that cannot be reached most
// likely takes the finalize hook with it.
func (r *run) givesUpCustomize(err error) bool {
	_, delayed := hook.RetryDelay(err)
	return !delayed && !hook.IsUnreachable(err) && (r.memory.customizeFailed || r.memory.Attempts >= customizePatience-1)
}

// setReadable sets those rules of the customize hook whose objects can be read. Without an answer of the hook in
// the deletion, those of the latest sync stay if they can be read.
func (r *run) setReadable(ctx context.Context, missing *unread) error {
	if r.memory.finalizeRules == nil {
		return r.dropUnreadable(ctx, missing)
	}
	var readable []hook.RelatedRule
	for _, rule := range r.memory.finalizeRules {
		kind, err := r.checkReadable(ctx, rule)
		switch {
		case err == nil:
			readable = append(readable, rule)
		case errors.Is(err, served.ErrNotServed), errors.Is(err, identity.ErrForbidden):
			missing.add(kind, err)
		default:
			return relatedError(err)
		}
	}
	if err := r.related.Set(ctx, r.Item.Key, readable); err != nil {
		return relatedError(err)
	}
	if len(missing.kinds) == 0 && !r.memory.customizeFailed {
		r.memory.customizedParent = r.customizeDigest()
	}
	return nil
}

// checkReadable returns the kind of a rule, and an error unless its objects can be read.
func (r *run) checkReadable(ctx context.Context, rule hook.RelatedRule) (object.Resource, error) {
	reads, err := r.related.ReadsOf(ctx, r.Item.Key, []hook.RelatedRule{rule})
	if errors.Is(err, served.ErrNotServed) {
		if r.tools.Known != nil {
			if known, was := r.tools.Known(rule.APIVersion, rule.Resource); was {
				return known, served.ErrNotServed
			}
		}
		return served.Guess(rule.APIVersion, rule.Resource), served.ErrNotServed
	}
	if err != nil {
		return object.Resource{}, err
	}
	return reads[len(reads)-1].Resource, r.checkRelatedReads(ctx, r.user(), reads)
}

// dropUnreadable drops the rules of the latest sync unless all of their objects may be read.
func (r *run) dropUnreadable(ctx context.Context, missing *unread) error {
	reads := r.related.Reads(r.Item.Key)
	err := r.checkRelatedReads(ctx, r.user(), reads)
	if !errors.Is(err, identity.ErrForbidden) {
		return err
	}
	for _, read := range reads {
		missing.add(read.Resource, err)
	}
	return r.related.Set(ctx, r.Item.Key, nil)
}
