package composite

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// storeStatus stores the status of the latest response, and the labels and annotations of a
// decorator, if they changed.
func (r *run) storeStatus(ctx context.Context) error {
	if r.parent == r.Stored || !r.StillExists() {
		return nil
	}
	if r.decorationChanged() {
		if err := r.decorate(ctx); err != nil {
			return err
		}
	}
	if r.parent == r.Stored || r.isStatusStored() || !r.program.Parent.Status {
		return nil
	}
	began := r.Record.Now()
	stored, err := r.writer().UpdateStatus(ctx, r.program.Parent, r.parent)
	r.Record.Wrote(began, record.Write{Resource: r.program.Parent, Part: "status", Before: r.Stored, After: stored, Err: err})
	if err != nil {
		return r.dropRejected(updateError("store the status of", r.Stored, err))
	}
	r.ObserveWrite(r.program.Parent, stored)
	r.memory.hasWritten = true
	r.noteStatus(r.parent, stored)
	r.Stored, r.parent, r.planner.Parent = stored, stored, stored
	return nil
}

// dropRejected drops the changes of a rejected write of the parent, so that they are not sent
// again. It returns the error.
func (r *run) dropRejected(err error) error {
	r.memory.syncedInput, r.parent = 0, r.Stored
	return err
}

// decorate writes the labels and annotations that a decorator sets.
func (r *run) decorate(ctx context.Context) error {
	wanted := r.parent
	r.noteOwnWrite(r.Item.Key, r.parent)
	if err := r.storeParent(ctx, "decorate", r.parent); err != nil {
		return err
	}
	r.noteOwnWrite(r.Item.Key, r.Stored)
	r.memory.hasWritten = true
	if !r.program.Parent.Status {
		r.noteStatus(wanted, r.Stored)
	}
	return nil
}

// noteStatus notes what the server made of a status, and reports a field that it did not store.
func (r *run) noteStatus(wanted, stored *object.Object) {
	known := &r.memory.status
	known.wanted, known.stored, known.prunedAt = statusDigest(wanted), statusDigest(stored), time.Time{}
	if known.wanted == known.stored {
		return
	}
	want, _ := object.Decode(wanted.Field("status"))
	have, _ := object.Decode(stored.Field("status"))
	if missing, _ := object.Missing(want, have); missing == nil {
		return
	}
	known.prunedAt = r.tools.Now()
	_, field := object.Missing(r.returnedStatus(wanted), have)
	r.ReportPruned(field)
}

// returnedStatus is a status without what Setpoint itself adds to that of a response: no author can leave that out.
func (r *run) returnedStatus(wanted *object.Object) map[string]any {
	if bare, err := plan.WithoutOwnConditions(wanted, r.memory.hookConditions); err == nil && r.program.Conditions {
		wanted = bare
	}
	status, _ := object.Decode(wanted.Field("status"))
	if r.program.Parent.Custom && !r.program.isDecorator() {
		delete(status, plan.FieldObservedGeneration)
	}
	return status
}

// retryPruned returns when to write a status again of which the server did not store a field; zero if it stored all.
func (r *run) retryPruned() time.Time {
	if r.memory.status.prunedAt.IsZero() {
		return time.Time{}
	}
	return r.memory.status.prunedAt.Add(controller.PrunedRetry)
}

// decorationChanged reports whether more than the status subresource has to be written.
func (r *run) decorationChanged() bool {
	if !r.program.isDecorator() {
		return false
	}
	same := func(field ...string) bool {
		return object.DigestOf(r.parent.Field(field...)) == object.DigestOf(r.Stored.Field(field...))
	}
	return !same("metadata", "labels") || !same("metadata", "annotations") ||
		!r.program.Parent.Status && !same("status") && !r.isStatusStored()
}

// isStatusStored reports whether this status was sent before and what the server made of it is
// still stored.
func (r *run) isStatusStored() bool {
	known, again := r.memory.status, r.retryPruned()
	if !again.IsZero() && (r.Item.Causes.Has(queue.ReconcileRequested) || !again.After(r.tools.Now())) {
		return false
	}
	return known.wanted != 0 && known.wanted == statusDigest(r.parent) && known.stored == statusDigest(r.Stored)
}

func statusDigest(o *object.Object) uint64 { return object.DigestOf(o.Field("status")) }
