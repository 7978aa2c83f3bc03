package handler

import (
	"cmp"
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
	if !r.addsFinalizer() {
		return nil
	}
	finalizers := append(r.program.withoutOwnFinalizers(r.Stored), r.program.Finalizer)
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

// addsFinalizer reports whether the object needs the finalizer and does not have it.
func (r *run) addsFinalizer() bool {
	if r.Phase != controller.PhaseManaged || r.Stored.Deleting() || r.program.hasFinalizer(r.Stored) {
		return false
	}
	needed, known := r.needsFinalizer()
	return needed && known
}

// releaseAbandoned removes the finalizer after a run if the namespace is terminating and the ServiceAccount cannot.
// Else it returns the error of the run.
func (r *run) releaseAbandoned(ctx context.Context, cause error) error {
	a := controller.Abandoned{
		Forbidden: controller.IsForbidden(cause), Why: failure.Text(cause), Finalizer: r.program.Finalizer, Own: r.tools.Writer,
		Left: r.countOwned(r.Stored.UID(), r.Stored.Namespace()),
	}
	if failed := r.firstError(); cause == nil && failed != nil && failed.fault != nil {
		a.Forbidden, a.Why = failed.fault.Kind == failure.Forbidden, failed.message
	}
	stored, err := r.ReleaseAbandoned(ctx, a)
	switch {
	case err != nil:
		return cmp.Or(cause, err)
	case stored != nil:
		r.setStored(stored)
		return nil
	}
	return cause
}

// needsFinalizer reports whether a handler needs the finalizer. It is not known while a handler that
// decides it fails.
func (r *run) needsFinalizer() (needed, known bool) {
	known = true
	for _, h := range r.memory.handlers {
		if !h.needsFinalizer() || !r.program.selects(r.Stored) {
			continue
		}
		switch applicable, isKnown := r.isApplicable(h); {
		case applicable:
			return true, true
		case !isKnown:
			known = false
		}
	}
	return false, known
}

// removesFinalizer reports whether to remove the finalizer: no handler needs it, or the object
// is being deleted and all Delete handlers and daemons are done.
func (r *run) removesFinalizer(applied []*pendingResponse) bool {
	switch {
	case !r.program.hasFinalizer(r.Stored) || r.waitsForDaemon():
		return false
	case !r.program.needsFinalizer(r.Stored):
		return true
	case !r.Stored.Deleting():
		needed, known := r.needsFinalizer()
		return known && !needed
	}
	return !slices.ContainsFunc(r.memory.handlers, func(h *handlerMemory) bool { return r.holdsDeletion(h, applied) })
}

// holdsDeletion reports whether the object waits in its deletion for a Delete handler, or for what it responded.
func (r *run) holdsDeletion(h *handlerMemory, applied []*pendingResponse) bool {
	waits := h.handles(hook.ReasonDelete) && h.matches(nil, r.Stored) && h.mayHold(hook.ReasonDelete, nil, r.Stored) &&
		!r.declines(h, hook.ReasonDelete)
	return waits && (!h.entry().Done || r.memory.hasPending(h, applied))
}

// reportDeletion says what the deletion of the object waits for. Failures have events of their own.
func (r *run) reportDeletion() {
	if !r.Stored.Deleting() || !r.program.hasFinalizer(r.Stored) || r.failure != nil || r.firstError() != nil {
		return
	}
	for _, h := range r.memory.handlers {
		switch {
		case h.daemon != nil && !h.daemon.stuck:
			r.ReportWaiting("waits until the daemon " + h.title() + " has returned")
			return
		case r.holdsDeletion(h, nil):
			r.ReportWaiting("waits for the answer of the handler " + h.title() + " that it is done")
			return
		}
	}
}

// remainingFinalizers returns the finalizers of the object after a write, and whether they differ.
// Those of a former controller go with the first write, but in a deletion they hold the object for
// the handlers.
func (r *run) remainingFinalizers(applied []*pendingResponse) (names []string, differ bool) {
	names = r.Stored.Finalizers()
	before := len(names)
	switch {
	case r.removesFinalizer(applied):
		names = r.program.withoutOwnFinalizers(r.Stored)
	case r.program.handlesObject(r.Stored) && !r.Stored.Deleting():
		if _, known := r.needsFinalizer(); known {
			names = r.program.withoutReplacedFinalizers(names)
		}
	}
	return names, len(names) != before
}

// finalizerRemoval returns the patch that removes the finalizer from this version of the
// object.
func (p *Program) finalizerRemoval(o *object.Object) map[string]any {
	metadata := precondition(o, true)
	metadata["finalizers"] = p.withoutOwnFinalizers(o)
	return map[string]any{"metadata": metadata}
}

// withoutOwnFinalizers returns the finalizers of an object except that of the program and, if it
// handles the object, those that it replaces.
func (p *Program) withoutOwnFinalizers(o *object.Object) []string {
	names := o.Finalizers()
	if p.selects(o) {
		names = p.withoutReplacedFinalizers(names)
	}
	return slices.DeleteFunc(names, func(name string) bool { return name == p.Finalizer })
}

// withoutReplacedFinalizers returns finalizers except those of a former controller.
func (p *Program) withoutReplacedFinalizers(names []string) []string {
	return slices.DeleteFunc(names, func(name string) bool { return slices.Contains(p.ReplacedFinalizers, name) })
}
