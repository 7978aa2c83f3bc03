package handler

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// writePending writes the pending responses of earlier runs, except those of handlers that are
// about to be called for something newer.
func (r *run) writePending(ctx context.Context) error {
	if !r.StillExists() {
		return r.dropPending()
	}
	for _, o := range slices.Clone(r.memory.Responses) {
		if o.Call.Reason != hook.ReasonEvent && r.pass.Due.CallsNow(o.Call.Handler) {
			continue
		}
		if r.pass.DropOutdated(o) {
			r.Log.Debug("conflict: object changed concurrently; calling the handler again", "object", r.Stored.Ref().String(),
				"handler", o.Call.Handler.Name)
			continue
		}
		if err := r.writeResponse(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// writeResponse writes a response: it deletes and applies objects first, then the status and the object. The write with
// the record is the last, so that the record never claims what was not written. A rejected write is a failure of this
// handler only. Without a response it writes the remaining changes of the record, the condition and the finalizer.
func (r *run) writeResponse(ctx context.Context, o *trigger.Response) error {
	if !r.StillExists() {
		return r.dropPending()
	}
	done := o == nil || r.applyOwned(ctx, o)
	r.pass.OwnedWritten(r.dependents.ownedDigest())
	if !done || !r.mayWrite(o) {
		return r.refresh(ctx)
	}
	before := r.Stored
	err := r.object.store(ctx, o)
	switch {
	case err == nil:
		r.object.notePruned(o)
		r.reportUnstored()
		r.memory.writeAttempt = trigger.Attempt{}
		r.pass.Written(o, before, r.object.sent)
		if o != nil {
			r.SendEvents(o.Response.Events)
		}
	case o != nil && o.ChangesObject() && apply.Rejected(err):
		r.writeFailed(o, err)
	default:
		return r.writeError(ctx, err)
	}
	return r.refresh(ctx)
}

// writeFailed records a failed write as one of the handler, to be repeated without another call.
func (r *run) writeFailed(o *trigger.Response, err error) {
	o.Attempt.Failed(r.Now(), r.QueueOptions.Random)
	r.recordError(o.Call.Handler, failure.WithReason(controller.ReasonWriteFailed,
		fmt.Errorf("handler %s: %w", o.Call.Handler.Title(), err)))
}

func (r *run) writeError(ctx context.Context, err error) error {
	switch {
	case apply.NotFound(err):
		return r.dropPending()
	case errors.Is(err, controller.ErrConflict):
		return controller.ErrConflict
	case ctx.Err() != nil:
		return ctx.Err()
	}
	return failure.WithReason(controller.ReasonWriteFailed, err)
}

func (r *run) dropPending() error {
	r.memory.Responses = nil
	return errGone
}

func (r *run) refresh(ctx context.Context) error {
	if r.object.stale || r.dependents.stale {
		r.observe()
	}
	return ctx.Err()
}

// mayWrite reports whether to write the object now: failed writes and a record that is removed
// repeatedly wait, unless a handler just responded.
func (r *run) mayWrite(o *trigger.Response) bool {
	wait := trigger.Latest(r.memory.writeAttempt.Next, r.memory.stateRemovals.Next)
	if o != nil {
		wait = trigger.Latest(wait, o.Attempt.Next)
	}
	return o != nil && o.Fresh && o.Attempt.Count == 0 || r.pass.RetriesWrites() || !wait.After(r.Now())
}

func (r *run) reportUnstored() {
	if large := r.pass.Unstored; len(large) > 0 {
		r.SendOnce(hook.Event{Type: controller.Warning, Reason: trigger.ReasonPreviousStateNotStored,
			Message: "the watched fields are too large for the record, so the previous state is unknown after a restart; " +
				"watch fewer fields in " + strings.Join(large, ", ")})
	}
}

func (r *run) updateThrottle() {
	starts, ends := r.pass.CountRun(r.object.written || r.dependents.written)
	switch {
	case ends:
		r.object.resolved = true
		r.Log.Info("conflict resolved; object no longer throttled", "object", r.Stored.Ref().String())
		r.SendEvent(hook.Event{Type: controller.Normal, Reason: trigger.ReasonConflictResolved, Message: "handlers of " + r.program.Name +
			" are no longer throttled"})
	case starts:
		message := r.Secrets.Text(r.pass.ConflictMessage())
		r.memory.Throttle.Message = message
		r.Log.Warn("object throttled", "object", r.Stored.Ref().String(), "reason", trigger.ReasonConflicting, "message", message)
		r.SendEvent(hook.Event{Type: controller.Warning, Reason: trigger.ReasonConflicting, Message: message})
	}
}

// retryPruned writes the fields of the status again that the API server did not store, in case that the schema of the
// kind has them now: no handler is called for that.
func (r *run) retryPruned(ctx context.Context) error {
	if r.memory.prunedStatus == nil || r.memory.prunedNext.After(r.Now()) && !r.pass.RetriesCalls() {
		return nil
	}
	r.memory.prunedNext = r.Now().Add(controller.PrunedRetry)
	store, patch := r.object.storeStatus, r.memory.prunedStatus
	if !r.program.Resource.Status {
		store, patch = r.object.patchObject, map[string]any{apply.StatusPart: patch}
	}
	if err := store(ctx, patch, true); err != nil {
		return r.writeError(ctx, err)
	}
	r.object.notePruned(nil)
	return r.refresh(ctx)
}

// removalsResetAfter is how long a record must stay until earlier removals do not count any more.
const removalsResetAfter = time.Minute

// noteStateRemoval schedules the write of the record: at once, but later with each removal.
func (m *memory) noteStateRemoval(now time.Time, random func() float64) {
	losses := &m.stateRemovals
	if now.Sub(losses.Since) > removalsResetAfter {
		losses.Count = 0
	}
	losses.Since = now
	if losses.Count > 0 {
		losses.Next = now.Add(trigger.BackoffAfter(losses.Count, trigger.FirstDelay, trigger.LongestDelay, random))
	}
	losses.Count++
}

// evictionRetryDelay is the delay after a refused eviction. A refusal is not a failure.
const evictionRetryDelay = 2 * time.Second

// evictionEventDelay is how long budgets refuse evictions before Setpoint sends an event. A
// budget that allows one pod at a time refuses often, for a moment.
const evictionEventDelay = 10 * time.Second

// applyOwned deletes and applies the objects of a response and reports whether all is done. It
// retries with backoff, without another call of the handler.
func (r *run) applyOwned(ctx context.Context, o *trigger.Response) bool {
	now := r.Now()
	switch {
	case o.Applied:
		return true
	case !o.Fresh && o.Attempt.Next.After(now) && !r.pass.RetriesWrites():
		return false
	}
	err := r.dependents.applyResponse(ctx, o)
	if r.dry != nil {
		r.dry.notApplied = err
	}
	switch {
	case err == nil:
		if o.Attempt.Count > 0 {
			o.Call.Handler.Failed = nil
		}
		o.Attempt = trigger.Attempt{}
		delete(r.memory.evictions, o.Call.Handler)
		return true
	case ctx.Err() != nil:
	case errors.Is(err, errEvictionRefused):
		o.Attempt.Next = now.Add(evictionRetryDelay)
		r.reportRefusedEviction(o.Call.Handler, err)
	case hook.IsTerminal(err): // It can never be applied.
		r.pass.TakeBack(o)
		r.pass.GiveUp(o.Call, err)
	default:
		r.writeFailed(o, err)
	}
	return false
}

// reportRefusedEviction sends one event when budgets have refused for long, also if the
// handler was called again meanwhile.
func (r *run) reportRefusedEviction(h *trigger.State, err error) {
	wait, now := r.memory.evictions[h], r.Now()
	switch {
	case wait.since.IsZero():
		wait.since = now
		if r.memory.evictions == nil {
			r.memory.evictions = map[*trigger.State]evictionWait{}
		}
	case !wait.reported && now.Sub(wait.since) >= evictionEventDelay:
		wait.reported = true
		message := failure.OneLine(err)
		r.Log.Warn("eviction refused", "object", r.Stored.Ref().String(), "error", message)
		r.SendEvent(hook.Event{Type: controller.Warning, Reason: trigger.ReasonEvictionRefused, Message: message})
	}
	r.memory.evictions[h] = wait
}
