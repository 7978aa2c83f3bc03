package handler

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"time"

	apierrors "k8s.io/apimachinery/pkg/api/errors"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// errGone ends a run whose object was deleted. The watch delivers the deletion soon.
var errGone = errors.New("the object is gone")

// writePending writes the pending responses of earlier runs, except those of handlers that are
// about to be called for something newer.
func (r *run) writePending(ctx context.Context) error {
	if !r.StillExists() {
		return r.dropPending()
	}
	for _, o := range slices.Clone(r.memory.pending) {
		if o.call.reason != hook.ReasonEvent && r.pending.calls.includes(o.call.handler) {
			continue
		}
		if r.hasConflict(o) {
			r.callAgain(o)
			continue
		}
		if err := r.writeResponse(ctx, o); err != nil {
			return err
		}
	}
	return nil
}

// writeResponse writes a response: it deletes and applies objects first, then the status and
// the object. The write with the record is the last, so that the record never claims what was
// not written. A rejected write is a failure of this handler only. Without a response it writes the
// remaining changes of the record, the condition and the finalizer.
func (r *run) writeResponse(ctx context.Context, o *pendingResponse) error {
	if !r.StillExists() {
		return r.dropPending()
	}
	if o != nil && !r.apply(ctx, o) || !r.mayWrite(o) {
		r.updateOwnedDigests()
		return r.refresh(ctx)
	}
	var applied []*pendingResponse
	if o != nil {
		applied = append(applied, o)
	}
	r.writing = o
	err := r.store(ctx, applied)
	r.writing = nil
	switch {
	case err == nil:
		r.responsesWritten(ctx, applied)
	case o != nil && o.changesObject() && isRejection(err):
		o.attempt.failed(r.tools.Now(), r.tools.Queue.Random)
		r.recordError(o.call.handler, failure.WithReason(controller.ReasonWriteFailed,
			fmt.Errorf("handler %s: %w", o.call.handler.title(), err)))
	default:
		return r.writeError(ctx, err)
	}
	return r.refresh(ctx)
}

// writeError returns the error of a run after a failed write.
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

// dropPending drops the pending writes of a deleted object.
func (r *run) dropPending() error {
	r.memory.pending = nil
	return errGone
}

// refresh observes the object again after our writes.
func (r *run) refresh(ctx context.Context) error {
	if r.stale {
		r.stale = false
		r.observe()
	}
	return ctx.Err()
}

// isRejection reports whether the API server rejected this write, rather than being overloaded
// or unreachable.
func isRejection(err error) bool {
	var status apierrors.APIStatus
	if !errors.As(err, &status) || apply.NotFound(err) {
		return false
	}
	switch status.Status().Code {
	case http.StatusUnauthorized, http.StatusTooManyRequests, http.StatusServiceUnavailable, http.StatusGatewayTimeout:
		return false
	}
	return true
}

// failed counts a failed write and sets the time of the retry.
func (a *attempt) failed(now time.Time, random func() float64) {
	a.count++
	a.next = now.Add(backoff(a.count, firstDelay, longestDelay, random))
}

// mayWrite reports whether to write the object now: failed writes and a record that is removed
// repeatedly wait, unless a handler just responded.
func (r *run) mayWrite(o *pendingResponse) bool {
	wait := latest(r.memory.writeAttempt.next, r.memory.stateRemovals.next)
	if o != nil {
		wait = latest(wait, o.attempt.next)
	}
	return o != nil && o.fresh && o.attempt.count == 0 || r.retriesWrites() || !wait.After(r.tools.Now())
}

// store writes what responses change in the object.
func (r *run) store(ctx context.Context, applied []*pendingResponse) error {
	r.updateOwnedDigests()
	if err := r.storeRevisions(ctx, applied); err != nil {
		return err
	}
	if err := r.storeResponses(ctx, applied); err != nil {
		return err
	}
	r.notePruned(applied)
	return nil
}

// storeResponses writes the status and the object, with the record.
func (r *run) storeResponses(ctx context.Context, applied []*pendingResponse) error {
	checkVersion := slices.ContainsFunc(applied, (*pendingResponse).changesObject)
	d := objectWrite{before: r.Stored, checkVersion: checkVersion}
	if r.storesStateInStatus() {
		return r.storeStateWithStatus(ctx, applied, d)
	}
	if r.program.Resource.Status {
		var err error
		if d.status, err = r.storeStatus(ctx, r.statusPatch(applied), true); err != nil {
			return err
		}
	}
	return r.storeObject(ctx, applied, d)
}

// responsesWritten updates the memory after responses were written completely.
func (r *run) responsesWritten(ctx context.Context, applied []*pendingResponse) {
	r.memory.writeAttempt = attempt{}
	defer r.pruneRevisions(ctx)
	for _, o := range applied {
		if o.attempt.count > 0 {
			o.attempt, o.call.handler.failed = attempt{}, o.failed
		}
		for _, event := range o.response.Events {
			r.SendEvent(event)
		}
	}
	r.memory.removePending(applied...)
	for _, h := range r.memory.handlers {
		r.entryWritten(h, applied)
	}
}
