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
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// setFinalizer is the step that sets the finalizer before the first call of a handler. From
// then on the object cannot be deleted without its Delete handlers.
func (r *run) setFinalizer(ctx context.Context) error {
	if r.Phase != controller.PhaseManaged || r.Stored.Deleting() || r.rules.HasFinalizer(r.Stored) {
		return nil
	}
	if needed, known := r.pass.NeedsFinalizer(); !needed || !known {
		return nil
	}
	finalizers := append(r.rules.WithoutOwnFinalizers(r.Stored), r.program.Finalizer)
	switch err := r.object.patchObject(ctx, map[string]any{"metadata": map[string]any{"finalizers": finalizers}}, true); {
	case errors.Is(err, controller.ErrConflict), apply.NotFound(err):
		return controller.ErrConflict
	case err != nil:
		return failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("add the finalizer: %w", err))
	}
	r.observe()
	return nil
}

// releaseAbandoned removes the finalizer after a run if the namespace is terminating and the ServiceAccount cannot.
// Else it returns the error of the run.
func (r *run) releaseAbandoned(ctx context.Context, cause error) error {
	a := controller.Abandoned{
		Forbidden: controller.IsForbidden(cause), Why: failure.Text(cause), Finalizer: r.program.Finalizer,
		Left: r.CountOwned(r.Stored.UID(), r.Stored.Namespace()),
	}
	if failed := r.memory.firstError(); cause == nil && failed != nil && failed.Fault != nil {
		a.Forbidden, a.Why = failed.Fault.Kind == failure.Forbidden, failed.Message
	}
	stored, err := r.ReleaseAbandoned(ctx, a)
	if stored != nil {
		r.object.setStored(stored, nil)
		return nil
	}
	return cmp.Or(cause, err)
}

// reportDeletion says what the deletion of the object waits for. Failures have events of their own.
func (r *run) reportDeletion() {
	if !r.Stored.Deleting() || !r.rules.HasFinalizer(r.Stored) || r.failure != nil || r.memory.firstError() != nil {
		return
	}
	runs := func(d *daemonState) bool { return d.running != nil && !d.running.stuck }
	if i := slices.IndexFunc(r.memory.daemons, runs); i >= 0 {
		r.ReportWaiting("waits until the daemon " + r.memory.daemons[i].Title() + " has returned")
		return
	}
	holds := func(h *trigger.State) bool { return r.pass.HoldsDeletion(h, nil) }
	if i := slices.IndexFunc(r.memory.Handlers, holds); i >= 0 {
		r.ReportWaiting("waits for the answer of the handler " + r.memory.Handlers[i].Title() + " that it is done")
	}
}

// HandBack are merge patches that leave an object to the controller that the program has replaced:
// instead of the record, the object has the ReplacedAnnotation with the state that is handled.
type HandBack struct {
	// Object and Status are the patches of the Object and of its status; nil for none.
	Object, Status []byte
	// Outdated means that a handler has not handled the object as it is. It gets no annotation, so
	// the previous controller handles it as new.
	Outdated bool
}

// HandBack returns the patches for one object; without a record there are none.
func (p *Program) HandBack(o *object.Object) (HandBack, error) {
	var back HandBack
	recorded := p.HandledStateOf(o)
	if p.ReplacedAnnotation == "" || len(recorded) == 0 {
		return back, nil
	}
	annotations, status := lasthandled.Removal(o, append(slices.Clip(p.PreviousRecords), p.Record))
	annotations = object.CombinePatches(annotations, nil)
	if o.Field(p.Record.InAnnotation()...) != nil { // Also one that cannot be read.
		annotations[p.Record.Annotation] = nil
	}
	switch {
	case o.Field("metadata", "annotations", p.ReplacedAnnotation) != nil: // That of the previous controller is still there.
	case p.HasHandled(recorded, o):
		state, err := json.Marshal(p.ReplacedState(o))
		if err != nil {
			return back, err
		}
		annotations[p.ReplacedAnnotation] = string(state) + "\n"
	default:
		back.Outdated = true
	}
	var err error
	back.Object, err = encodePatch(o, map[string]any{"metadata": map[string]any{"annotations": annotations}}, true)
	if status != nil && err == nil {
		back.Status, err = encodePatch(o, map[string]any{apply.StatusPart: map[string]any{lasthandled.StatusField: status}}, false)
	}
	return back, err
}

// handleDeletions calls handlers for deleted objects. It does not retry across runs: no object
// remains to keep a record on.
func (c *Controller) handleDeletions(ctx context.Context, events []trigger.Event) {
	for _, e := range events {
		if e.New != nil || !c.rules.Selects(e.Old) || c.leftSelector(ctx, e.Old) {
			continue
		}
		for i := range c.program.Handlers {
			h := &c.program.Handlers[i]
			for _, reason := range c.rules.DeletionReasons(h, e.Old) {
				c.callDeleted(ctx, h, e.Old, reason)
			}
		}
	}
}

// leftSelector reports whether an object still exists but no longer matches the selector of
// the watch. Setpoint releases it then.
func (c *Controller) leftSelector(ctx context.Context, o *object.Object) bool {
	if c.program.serverSelector() == "" && c.program.Fields == "" {
		return false
	}
	for range controller.MaxConflicts {
		existing, err := c.WriterFor(o.Namespace()).Get(ctx, c.program.Resource, o.Namespace(), o.Name())
		if err != nil || existing.UID() != o.UID() {
			return false
		}
		if !c.rules.HasFinalizer(existing) {
			return true
		}
		metadata := map[string]any{"finalizers": c.rules.WithoutOwnFinalizers(existing)}
		body, err := encodePatch(existing, map[string]any{"metadata": metadata}, true)
		if err == nil {
			_, err = c.WriterFor(o.Namespace()).Patch(ctx, c.program.Resource, existing, body, "")
		}
		if err == nil {
			return true
		}
		c.ValuesOf(existing, o).Logger(c.Log).Warn("finalizer not removed; retrying", "object", o.Ref().String(), "error",
			failure.OneLine(err))
		if !controller.Sleep(ctx, controller.ConflictDelay) {
			return true
		}
	}
	return true
}

func (c *Controller) callDeleted(ctx context.Context, h *trigger.Handler, o *object.Object, reason hook.Reason) {
	holds, err := h.Holds(reason, nil, o)
	if err == nil && !holds {
		return
	}
	n := c.newRequest(h, o, c.OwnedBy(o))
	n.Reason, n.Deleted = reason, true
	if reason == hook.ReasonEvent {
		n.Event = hook.EventDeleted
	}
	ctx, of := c.NewDetachedRun(ctx, o, "it is gone")
	r, done := c.newDetached(of), trigger.Response{}
	if err = cmp.Or(err, r.CheckReads(ctx)); err == nil {
		done.Response, err = c.invoke(ctx, of, n, h)
	}
	if err == nil {
		err = r.dependents.applyResponse(ctx, &done)
	}
	if err == nil {
		r.SendEvents(done.Response.Events)
		err = done.Response.Err
	}
	if err != nil && ctx.Err() == nil {
		err = r.Secrets.Error(fmt.Errorf("handler %s: %w", h.Title(), err))
		r.Log.Warn("reconcile failed", "object", o.Ref().String(), "error", failure.OneLine(err))
		r.SendEvent(hook.Event{Type: controller.Warning, Reason: trigger.FailureReason(err), Message: failure.OneLine(err)})
	}
	r.FinishDetached(ctx, err)
}
