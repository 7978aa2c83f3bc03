package composite

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// holdParent adds the finalizer before the first hook call, so that the parent cannot be deleted
// without a call of the finalize hook. What that call needs must have been there once.
func (r *run) holdParent(ctx context.Context) error {
	if !r.lacksFinalizer() {
		return nil
	}
	if err := r.relate(ctx); err != nil {
		return err
	}
	edited, err := r.withFinalizer()
	if err := r.storeFinalizers(ctx, "add the finalizer to", edited, err); err != nil {
		return err
	}
	if r.related != nil {
		r.memory.customizedParent = r.customizeDigest() // The finalizer makes no difference.
	}
	return nil
}

func (r *run) lacksFinalizer() bool {
	return r.logic.Finalize != nil && r.Phase == controller.PhaseManaged && !r.program.hasFinalizer(r.Stored)
}

func (r *run) withFinalizer() (*object.Object, error) {
	return withFinalizers(r.Stored, append(r.Stored.Finalizers(), r.program.Finalizer))
}

func (r *run) removeFinalizer(ctx context.Context) error {
	edited, err := r.withoutFinalizer(r.Stored)
	return r.storeFinalizers(ctx, "remove the finalizer from", edited, err)
}

// withoutFinalizer returns the parent without the controller's finalizer.
func (r *run) withoutFinalizer(parent *object.Object) (*object.Object, error) {
	ours := func(name string) bool { return name == r.program.Finalizer }
	return withFinalizers(parent, slices.DeleteFunc(parent.Finalizers(), ours))
}

// finalized reports whether a response with finalized: true was applied. It stays true: later calls
// may not find what the hook deleted.
func (r *run) finalized() bool {
	return r.Phase == controller.PhaseFinalizing && r.memory.finalResponse != nil
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
		overlaid, err := r.overlayResponse()
		if err != nil {
			return hookFailure(r.hookName(), &hook.MalformedError{Path: "status", Err: err})
		}
		r.parent = overlaid
	}
	if waiting := r.waitingChildren(); waiting != "" {
		if err := r.reportWaiting(waiting); err != nil {
			return err
		}
		return r.storeStatus(ctx)
	}
	if !r.Stored.Deleting() || len(r.Stored.Finalizers()) > 1 {
		// The parent stays, so store its status without Setpoint's conditions.
		if err := r.setConditions(plan.StatusReport{}); err != nil {
			return err
		}
		if err := r.storeStatus(ctx); err != nil {
			return err
		}
	}
	if err := r.removeFinalizer(ctx); err != nil {
		return err
	}
	r.memory.finalResponse = nil
	return nil
}

// waitingChildren names the first child that is being deleted, and its finalizers; "" if there is none.
func (r *run) waitingChildren() string {
	var going []*object.Object
	for _, child := range r.observed() {
		if child.Deleting() {
			going = append(going, child)
		}
	}
	if len(going) == 0 {
		return ""
	}
	text := going[0].Ref().String()
	if names := going[0].Finalizers(); len(names) > 0 {
		text += " with the finalizers " + strings.Join(names, ", ")
	}
	if len(going) > 1 {
		text += fmt.Sprintf(" and %d more", len(going)-1)
	}
	return "waits for the deletion of " + text
}

// reportWaiting says on a parent that is being finalized what it waits for.
func (r *run) reportWaiting(what string) error {
	r.ReportWaiting(what)
	return r.setConditions(plan.StatusReport{State: plan.Reconciling, Reason: controller.ReasonFinalizing, Message: what})
}

// releaseAbandoned removes the finalizer after an error if the namespace is terminating and the ServiceAccount cannot.
// It returns the error if the parent has to wait.
func (r *run) releaseAbandoned(ctx context.Context, cause error) error {
	stored, err := r.ReleaseAbandoned(ctx, controller.Abandoned{
		Forbidden: controller.IsForbidden(cause), Why: failure.OneLine(cause), Finalizer: r.program.Finalizer, Own: r.tools.Writer,
		Left: len(r.Children(r.Stored)),
	})
	switch {
	case err != nil:
		return joinErrors([]error{cause, err})
	case stored == nil:
		return cause
	}
	r.ObserveWrite(r.program.Parent, stored)
	r.Stored, r.parent = stored, stored
	return nil
}

// storeFinalizers stores the edited parent, unless the edit failed.
func (r *run) storeFinalizers(ctx context.Context, what string, edited *object.Object, err error) error {
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	if !r.StillExists() {
		return controller.ErrConflict
	}
	return r.storeParent(ctx, what, edited)
}

func withFinalizers(o *object.Object, names []string) (*object.Object, error) {
	if len(names) == 0 {
		return o.With(nil, "metadata", "finalizers")
	}
	text, err := json.Marshal(names)
	if err != nil {
		return nil, err
	}
	return o.With(text, "metadata", "finalizers")
}

// storeParent updates the parent without its status.
func (r *run) storeParent(ctx context.Context, what string, edited *object.Object) error {
	stored, err := r.update(ctx, r.program.Parent, what, r.Stored, edited)
	if err != nil {
		return r.dropRejected(err)
	}
	return r.setStored(stored)
}

// setStored makes an object the stored parent and keeps the status that is not stored yet.
func (r *run) setStored(stored *object.Object) error {
	unstoredStatus := r.parent.Field("status")
	pending := r.parent != r.Stored && object.DigestOf(unstoredStatus) != statusDigest(r.Stored)
	r.Stored, r.parent, r.planner.Parent = stored, stored, stored
	if !pending {
		return nil
	}
	overlaid, err := stored.With(unstoredStatus, "status")
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, err)
	}
	r.parent = overlaid
	return nil
}
