package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// evictionRetryDelay is the delay after a refused eviction. A refusal is not a failure.
const evictionRetryDelay = 2 * time.Second

// evictionEventDelay is how long budgets refuse evictions before Setpoint sends an event. A
// budget that allows one pod at a time refuses often, for a moment.
const evictionEventDelay = 10 * time.Second

// errEvictionRefused means that a budget refused some evictions of a response.
var errEvictionRefused = errors.New("a PodDisruptionBudget allows no more evictions now")

// apply deletes and applies the objects of a response and reports whether all is done. It
// retries with backoff, without another call of the handler.
func (r *run) apply(ctx context.Context, o *pendingResponse) bool {
	now, m := r.tools.Now(), o.call.handler
	if !o.applied && !o.fresh && o.attempt.next.After(now) && !r.retriesWrites() {
		return false
	}
	applied := o.applied
	err := r.applyResponse(ctx, o)
	if r.dry != nil && err != nil {
		r.dry.notApplied(err)
	}
	switch {
	case err == nil:
		if !applied {
			if o.attempt.count > 0 {
				m.failed = nil
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
		o.attempt.failed(now, r.tools.Queue.Random)
		r.recordError(o.call.handler, failure.WithReason(controller.ReasonWriteFailed,
			fmt.Errorf("handler %s: %w", o.call.handler.title(), err)))
	}
	return false
}

// evictionWait records since when budgets refuse the evictions of a handler, and whether an
// event was sent.
type evictionWait struct {
	since    time.Time
	reported bool
}

// reportRefusedEviction sends one event when budgets have refused for long, also if the
// handler was called again meanwhile.
func (r *run) reportRefusedEviction(f *evictionWait, err error) {
	switch now := r.tools.Now(); {
	case f.since.IsZero():
		f.since = now
	case !f.reported && now.Sub(f.since) >= evictionEventDelay:
		f.reported = true
		message := failure.OneLine(err)
		r.Log.Warn("eviction refused", "object", r.Stored.Ref().String(), "error", message)
		r.SendEvent(hook.Event{Type: controller.Warning, Reason: ReasonEvictionRefused, Message: message})
	}
}

// dropRefused drops a response that can never be applied.
func (r *run) dropRefused(o *pendingResponse, err error) {
	r.drop(o)
	if o.call.reason != hook.ReasonEvent {
		o.call.handler.progress = o.progressBefore
	}
	r.giveUp(o.call, fmt.Errorf("handler %s: %w", o.call.handler.title(), err))
}

// ownedWritten records a write to an owned object; stored is nil after a deletion.
func (r *run) ownedWritten(ref object.Ref, stored *object.Object) {
	r.stale, r.applied = true, true
	r.noteApplied(ref, stored)
	r.ownedNow = slices.DeleteFunc(r.ownedNow, func(o *object.Object) bool { return o.Ref() == ref })
	if stored != nil && stored.ControlledBy(r.Stored.UID()) {
		r.ownedNow = append(r.ownedNow, stored)
	}
}

// applyResponse deletes objects first, and then applies.
func (r *run) applyResponse(ctx context.Context, o *pendingResponse) error {
	if o.applied {
		return nil
	}
	if err := r.resolveDeletions(ctx, o); err != nil {
		return err
	}
	if err := r.deleteAll(ctx, o); err != nil {
		return err
	}
	for _, a := range o.response.Apply[o.appliedCount:] {
		if err := r.applyObject(ctx, a); err != nil {
			return err
		}
		o.appliedCount++
	}
	o.applied = true
	return nil
}

// noteWritten updates the caches after a write.
func (r *run) noteWritten(resource object.Resource, stored *object.Object) {
	r.ObserveWrite(resource, stored)
	if slices.Contains(r.program.Owns, resource) {
		r.ownedWritten(stored.Ref(), stored)
	}
}

// noteDeleted updates the caches after a deletion.
func (r *run) noteDeleted(resource object.Resource, o *object.Object) {
	r.ObserveDelete(resource, o)
	if slices.Contains(r.program.Owns, resource) {
		r.ownedWritten(o.Ref(), nil)
	}
}
