package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
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

// HandBack are merge patches that leave an object to the controller that the program has replaced:
// instead of the record, the object has the ReplacedAnnotation with the state that is handled.
type HandBack struct {
	// Object and Status are the patches of the object and of its status; nil for none.
	Object, Status []byte
	// Outdated means that a handler has not handled the object as it is. It gets no annotation, so
	// the former controller handles it as new.
	Outdated bool
}

// HandBack returns the patches for one object; without a record there are none.
func (p *Program) HandBack(o *object.Object) (HandBack, error) {
	var back HandBack
	recorded := p.handledStateOf(o)
	if p.ReplacedAnnotation == "" || len(recorded) == 0 {
		return back, nil
	}
	annotations, status := lasthandled.Removal(o, p.FormerRecords)
	annotations = object.CombinePatches(annotations, map[string]any{})
	if o.Field(p.record().InAnnotation()...) != nil {
		annotations[p.HandledAnnotation] = nil
	}
	switch {
	case o.Field("metadata", "annotations", p.ReplacedAnnotation) != nil:
		// The former controller's own is still there.
	case p.hasHandled(recorded, o):
		state, err := json.Marshal(p.formerState(o))
		if err != nil {
			return back, err
		}
		annotations[p.ReplacedAnnotation] = string(state) + "\n"
	default:
		back.Outdated = true
	}
	metadata := precondition(o, true)
	metadata["annotations"] = annotations
	var err error
	if back.Object, err = json.Marshal(map[string]any{"metadata": metadata}); err != nil {
		return back, err
	}
	if p.HandledStatusKey != "" && o.Field(p.record().InStatus()...) != nil {
		status = object.CombinePatches(status, map[string]any{p.HandledStatusKey: nil})
	}
	if status != nil {
		back.Status, err = json.Marshal(map[string]any{
			"metadata": map[string]any{"uid": o.UID()}, statusPart: map[string]any{lasthandled.StatusField: status},
		})
	}
	return back, err
}

// hasHandled reports whether all handlers have handled the object as it is. A change is nothing to handlers that are not
// for updates: what they have seen is as it was at the creation.
func (p *Program) hasHandled(recorded lasthandled.Record, o *object.Object) bool {
	for i, watched := range p.watchedDigests(o) {
		h := &p.Handlers[i]
		e := recorded[h.Name]
		if e.InProgress != "" || e.Progress != "" || e.Digest != "" && e.Digest != watched && h.handles(hook.ReasonUpdate) {
			return false
		}
	}
	return true
}

// formerState returns an object as a former controller of the same handlers keeps it: what is
// watched by default, and the fields of the status that handlers watch.
func (p *Program) formerState(o *object.Object) map[string]any {
	state := watchableFields(o)
	for i := range p.Handlers {
		removeBookkeeping(state, p.Handlers[i].IgnoredAnnotations...)
		for _, path := range p.Handlers[i].Fields {
			if text := o.Field(path...); text != nil && path[0] == statusPart {
				object.SetField(state, json.RawMessage(text), path...)
			}
		}
	}
	return state
}

// countsEdits reports whether the generation of an object counts the changes of fields that a handler watches: those of
// a custom resource outside of metadata and status. Kinds of Kubernetes count others as well.
func (p *Program) countsEdits(h *Handler, o *object.Object) bool {
	if !p.Resource.Custom || !p.Resource.Status || o.Generation() == 0 {
		return false
	}
	isCounted := func(path []string) bool { return path[0] != "metadata" && path[0] != "status" }
	return len(h.Fields) == 0 || slices.ContainsFunc(h.Fields, isCounted)
}

// editionOf returns the edition of an object that a handler has handled: that is stored, or what a response makes of
// it. It is zero if the object is nil, which means unknown.
func (r *run) editionOf(h *Handler, handled *object.Object) lasthandled.Edition {
	if handled == nil || !r.program.countsEdits(h, handled) {
		return lasthandled.Edition{}
	}
	e := lasthandled.Edition{Generation: handled.Generation()}
	if len(h.Fields) > 0 {
		e.Counted = countedDigest(handled)
	}
	if handled != r.Stored && handled.Version() == r.Stored.Version() && countedDigest(handled) != countedDigest(r.Stored) {
		e.Generation++ // The write of the response counts as well.
	}
	return e
}

// isEditUndone reports whether an object has been edited since the edition, and all that was edited is again as it
// was. If other fields have changed as well, it is not known whether watched ones have: then they count as unchanged,
// or each start would repeat the calls of all handlers that watch some fields.
func (p *Program) isEditUndone(h *Handler, since lasthandled.Edition, o *object.Object) bool {
	if since.Generation == 0 || !p.countsEdits(h, o) || o.Generation() <= since.Generation {
		return false
	}
	return len(h.Fields) == 0 || since.Counted == countedDigest(o)
}

// countedDigest returns a digest of the fields that the generation of a custom resource counts.
func countedDigest(o *object.Object) string {
	whole := decodeObject(o.JSON())
	for _, name := range []string{"apiVersion", "kind", "metadata", "status"} {
		delete(whole, name)
	}
	return lasthandled.Digest(whole)
}
