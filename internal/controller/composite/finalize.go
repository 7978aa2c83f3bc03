package composite

import (
	"context"

	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// holdParent adds the finalizer before the first hook call, so that the parent cannot be deleted
// without a call of the finalize hook. What that call needs must have been there once.
func (r *run) holdParent(ctx context.Context) error {
	if r.logic.Finalize == nil || r.Phase != controller.PhaseManaged || r.Stored.HasFinalizer(r.program.Finalizer) {
		return nil
	}
	if err := r.relation.findRelated(ctx); err != nil {
		return err
	}
	if err := r.status.storeFinalizers(ctx, "add the finalizer to", append(r.Stored.Finalizers(), r.program.Finalizer)); err != nil {
		return err
	}
	if r.related != nil {
		r.memory.customizedParent = r.relation.customizeDigest() // The finalizer makes no difference.
	}
	return nil
}

// noteFinalized keeps what the last response says about the parent until it is stored, which may take several runs.
func (r *run) noteFinalized() bool {
	r.memory.finalResponse = nil
	if r.Phase == controller.PhaseFinalizing && r.response.Finalized {
		final := *r.response
		final.Children, final.Events = nil, nil
		r.memory.finalResponse = &final
	}
	return r.memory.finalResponse != nil
}

// completeFinalization removes the finalizer once all children that are being deleted are gone. What the last
// response says about the parent is stored before, or in the same write.
func (r *run) completeFinalization(ctx context.Context) error {
	if r.response == nil {
		r.response = r.memory.finalResponse
		overlaid, err := r.status.overlay(r.response)
		if err != nil {
			return hookFailure(hookName(r.Phase), err)
		}
		r.status.wanted = overlaid
	}
	if waiting := r.family.waitingChildren(); waiting != "" {
		r.ReportWaiting(waiting)
		if err := r.status.setConditions(waitingReport(waiting)); err != nil {
			return err
		}
		return r.status.store(ctx)
	}
	if !r.Stored.Deleting() || len(r.Stored.Finalizers()) > 1 {
		// The parent stays, so store its status without Setpoint's conditions.
		if err := r.status.setConditions(plan.StatusReport{}); err != nil {
			return err
		}
		if err := r.status.store(ctx); err != nil {
			return err
		}
	}
	if err := r.status.removeFinalizer(ctx); err != nil {
		return err
	}
	r.memory.finalResponse = nil
	return nil
}

// releaseAbandoned removes the finalizer after an error if the namespace is terminating and the ServiceAccount cannot.
// It returns the error if the parent has to wait.
func (r *run) releaseAbandoned(ctx context.Context, cause error) error {
	stored, err := r.ReleaseAbandoned(ctx, controller.Abandoned{
		Forbidden: controller.IsForbidden(cause), Why: failure.OneLine(cause), Finalizer: r.program.Finalizer,
		Left: len(r.Children(r.Stored)),
	})
	switch {
	case err != nil:
		return joinErrors([]error{cause, err})
	case stored == nil:
		return cause
	}
	r.ObserveWrite(r.program.Parent, stored)
	r.Stored, r.status.wanted = stored, stored
	return nil
}
