package handle

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// evictionRetryDelay is how soon a pod that could not be evicted is tried again. That a
// budget is used up is no failure.
const evictionRetryDelay = 2 * time.Second

// evictionEventDelay is how long a budget may keep pods before their user is told: one
// that allows a pod at a time refuses now and then, for a moment.
const evictionEventDelay = 10 * time.Second

// errEvictionRefused ends an answer of which some pods could not be evicted for now.
var errEvictionRefused = errors.New("a PodDisruptionBudget allows no more evictions now")

// apply deletes and applies what an answer says, and says whether all is done. It
// is tried again with backoff, without asking the handler.
func (r *run) apply(ctx context.Context, o *pendingResponse) bool {
	now, m := r.tools.Now(), &r.memory.handlers[o.call.handler]
	if !o.applied && !o.fresh && o.attempt.next.After(now) && !r.retriesWrites() {
		return false
	}
	applied := o.applied
	h := applier{Controller: r.Controller, record: r.record, object: r.stored, onWrite: r.ownedWritten, isUnchanged: r.isUnchanged, onApplied: r.rememberApplied}
	err := h.applyResponse(ctx, o)
	switch {
	case err == nil:
		if !applied {
			if o.attempt.count > 0 {
				m.errorMessage = ""
			}
			o.attempt, m.eviction = attempt{}, evictionWait{}
		}
		return true
	case ctx.Err() != nil:
	case errors.Is(err, errEvictionRefused):
		o.attempt.next = now.Add(evictionRetryDelay)
		r.reportRefusedEviction(&m.eviction, err)
	case hook.IsTerminal(err):
		r.dropRefused(o, err)
	default:
		o.attempt.failed(now)
		r.recordError(o.call.handler, failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("handler %s: %w", r.program.Handlers[o.call.handler].Name, err)))
	}
	return false
}

// evictionWait is since when budgets have kept pods that a handler wants evicted, and
// whether their user was told.
type evictionWait struct {
	since    time.Time
	reported bool
}

// reportRefusedEviction says once that budgets have kept pods for long, also if the handler
// was asked again meanwhile.
func (r *run) reportRefusedEviction(f *evictionWait, err error) {
	switch now := r.tools.Now(); {
	case f.since.IsZero():
		f.since = now
	case !f.reported && now.Sub(f.since) >= evictionEventDelay:
		f.reported = true
		message := failure.OneLine(err)
		r.Log.Warn("eviction refused", "object", r.stored.Ref().String(), "error", message)
		r.sendEvent(hook.Event{Type: controller.Warning, Reason: ReasonEvictionRefused, Message: message})
	}
}

// dropRefused drops an answer that cannot be carried out, whoever tries.
func (r *run) dropRefused(o *pendingResponse, err error) {
	r.memory.pending = slices.DeleteFunc(r.memory.pending, func(other *pendingResponse) bool { return other == o })
	r.giveUp(o.call, fmt.Errorf("handler %s: %w", r.program.Handlers[o.call.handler].Name, err))
}

// ownedWritten takes note of a write to an owned object; stored is nil if it is gone.
func (r *run) ownedWritten(ref object.Ref, stored *object.Object) {
	r.stale, r.applied = true, true
	r.ownedNow = slices.DeleteFunc(r.ownedNow, func(o *object.Object) bool { return o.Ref() == ref })
	if stored != nil && stored.ControlledBy(r.stored.UID()) {
		r.ownedNow = append(r.ownedNow, stored)
	}
}

// applier carry out what an answer says beside the handled object itself.
type applier struct {
	*Controller
	record *record.Record
	object *object.Object
	// onWrite is told of each write to a kind that the program owns.
	onWrite func(object.Ref, *object.Object)
	// isUnchanged, if set, says whether there is nothing to apply, and left is told what
	// was.
	isUnchanged func(*object.Object) bool
	onApplied   func(applied, stored *object.Object)
}

// applyResponse deletes first, and then applies.
func (h *applier) applyResponse(ctx context.Context, o *pendingResponse) error {
	if o.applied {
		return nil
	}
	if err := h.resolveDeletions(ctx, o); err != nil {
		return err
	}
	if err := h.deleteAll(ctx, o); err != nil {
		return err
	}
	for _, a := range o.response.Apply[o.appliedCount:] {
		if err := h.applyObject(ctx, a); err != nil {
			return err
		}
		o.appliedCount++
	}
	o.applied = true
	return nil
}

// noteWritten has a write known to whoever watches.
func (h *applier) noteWritten(resource object.Resource, stored *object.Object) {
	h.ObserveWrite(resource, stored)
	if slices.Contains(h.program.Owns, resource) {
		h.onWrite(stored.Ref(), stored)
	}
}

// noteDeleted has a deletion known to whoever watches.
func (h *applier) noteDeleted(resource object.Resource, o *object.Object) {
	h.ObserveDelete(resource, o)
	if slices.Contains(h.program.Owns, resource) {
		h.onWrite(o.Ref(), nil)
	}
}

// isNamespaceTerminating says that nothing is to be done about an error: where a namespace is
// going away, nothing can be made in it any more.
func isNamespaceTerminating(err error) bool { return apply.Terminating(err) }
