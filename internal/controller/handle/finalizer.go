package handle

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// setFinalizer is the step that sets the finalizer before the first call of a handler. From
// then on the object cannot be deleted without its Delete handlers.
func (r *run) setFinalizer(ctx context.Context) error {
	if r.Phase != controller.PhaseManaged || r.Stored.Deleting() || r.program.hasFinalizer(r.Stored) || !r.program.needsFinalizer(r.Stored) {
		return nil
	}
	finalizers := append(r.Stored.Finalizers(), r.program.Finalizer)
	err := r.patchObject(ctx, map[string]any{"metadata": map[string]any{"finalizers": finalizers}}, true)
	switch {
	case err == nil:
		r.observe()
		return nil
	case errors.Is(err, controller.ErrConflict), apply.NotFound(err):
		return controller.ErrConflict
	}
	return failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("add the finalizer: %w", err))
}

// removesFinalizer reports whether to remove the finalizer: no handler needs it, or the object
// is being deleted and all Delete handlers and daemons are done.
func (r *run) removesFinalizer(applied []*pendingResponse) bool {
	if !r.program.hasFinalizer(r.Stored) || r.waitsForDaemon() {
		return false
	}
	if !r.program.needsFinalizer(r.Stored) {
		return true
	}
	if !r.Stored.Deleting() {
		return false
	}
	return !slices.ContainsFunc(r.memory.handlers, func(h *handlerMemory) bool {
		waits := h.handles(hook.ReasonDelete) && h.matches(nil, r.Stored)
		return waits && (!h.entry().Done || r.memory.hasPending(h, applied))
	})
}

// finalizerRemoval returns the patch that removes the finalizer from this version of the
// object.
func (p *Program) finalizerRemoval(o *object.Object) map[string]any {
	metadata := precondition(o, true)
	metadata["finalizers"] = without(o.Finalizers(), p.Finalizer)
	return map[string]any{"metadata": metadata}
}

// without returns the names except one.
func without(names []string, name string) []string {
	return slices.DeleteFunc(names, func(other string) bool { return other == name })
}
