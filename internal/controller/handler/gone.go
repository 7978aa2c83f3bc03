package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
)

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
		existing, err := c.Tools.WriterFor(o.Namespace()).Get(ctx, c.program.Resource, o.Namespace(), o.Name())
		if err != nil || existing.UID() != o.UID() {
			return false
		}
		if !c.rules.HasFinalizer(existing) {
			return true
		}
		metadata := precondition(existing, true)
		metadata["finalizers"] = c.rules.WithoutOwnFinalizers(existing)
		body, err := json.Marshal(map[string]any{"metadata": metadata})
		if err == nil {
			_, err = c.Tools.WriterFor(o.Namespace()).Patch(ctx, c.program.Resource, existing, body, "")
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
	n := c.newRequest(h, o)
	n.Reason, n.Deleted = reason, true
	if reason == hook.ReasonEvent {
		n.Event = hook.EventDeleted
	}
	n.Owned = c.program.ownedGroups(c.OwnedBy(o))
	ctx, of := c.NewDetachedRun(ctx, o, "it is gone")
	r := c.newDetached(of)
	var response *hook.HandlerResponse
	holds, err := h.Holds(reason, nil, o)
	if err == nil && !holds {
		return
	}
	err = cmp.Or(err, r.CheckReads(ctx))
	if err == nil {
		response, err = c.invoke(ctx, of, n, h)
	}
	if err == nil {
		err = r.dependents.applyResponse(ctx, &trigger.Response{Response: response})
	}
	if err == nil {
		for _, event := range response.Events {
			r.SendEvent(event)
		}
		err = response.Err
	}
	if err != nil && ctx.Err() == nil {
		err = r.Secrets.Error(fmt.Errorf("handler %s: %w", h.Title(), err))
		r.Log.Warn("reconcile failed", "object", o.Ref().String(), "error", failure.OneLine(err))
		r.SendEvent(hook.Event{Type: controller.Warning, Reason: trigger.FailureReason(err), Message: failure.OneLine(err)})
	}
	r.FinishDetached(ctx, err)
}
