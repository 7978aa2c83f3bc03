package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// resolveDeletions finds, once, the objects that a response deletes.
func (d *dependents) resolveDeletions(ctx context.Context, o *trigger.Response) error {
	if o.Resolved {
		return nil
	}
	var all []trigger.Target
	for _, deletion := range o.Response.Delete {
		found, err := d.findTargets(ctx, deletion)
		if err != nil {
			return err
		}
		all = append(all, found...)
	}
	o.Targets, o.Resolved = all, true
	return nil
}

// findTargets returns the objects that a deletion matches and the program may delete, each
// once.
func (d *dependents) findTargets(ctx context.Context, deletion hook.Deletion) ([]trigger.Target, error) {
	var targets []trigger.Target
	seen := map[string]bool{}
	for _, p := range d.permissions.DeletePermissions(deletion) {
		namespace := permit.NamespaceFor(p.Resource, d.Stored.Namespace(), deletion.Namespace)
		if !p.AllowsNamespace(namespace) || p.Resource.Unserved {
			continue
		}
		objects, err := d.readTargets(ctx, p, deletion, namespace)
		if err != nil {
			return nil, err
		}
		for _, o := range objects {
			if !seen[o.UID()] && !o.Deleting() {
				seen[o.UID()] = true
				targets = append(targets, trigger.Target{Resource: p.Resource, Object: o, Evict: deletion.Evict,
					Selector: deletion.Selector})
			}
		}
	}
	return targets, nil
}

// readTargets returns the objects that a deletion matches and one permission covers. A named
// object without a permission is an error; a selector skips it.
func (d *dependents) readTargets(ctx context.Context, p permit.Permission, deletion hook.Deletion, namespace string) ([]*object.Object,
	error) {
	if deletion.Name == "" {
		return d.listTargets(ctx, p, deletion, namespace)
	}
	o, err := d.writer.Get(ctx, p.Resource, namespace, deletion.Name)
	switch {
	case apply.NotFound(err):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("read %s %s before deleting it: %w", deletion.Kind, deletion.Name, err)
	case p.Allows(d.Stored, o):
		return []*object.Object{o}, nil
	}
	for _, other := range d.permissions.DeletePermissions(deletion) {
		if other.AllowsNamespace(namespace) && other.Allows(d.Stored, o) {
			return nil, nil
		}
	}
	return nil, permit.Undeclared(permit.DeletionVerb(deletion), true, deletion.APIVersion, deletion.Kind)
}

// listTargets returns the objects that a deletion selects.
func (d *dependents) listTargets(ctx context.Context, p permit.Permission, deletion hook.Deletion, namespace string) ([]*object.Object,
	error) {
	if !p.Owned {
		selector := deletion.Selector
		if p.Labels != "" {
			selector += "," + p.Labels
		}
		found, err := d.writer.List(ctx, p.Resource, namespace, selector)
		if err != nil {
			return nil, fmt.Errorf("list %s with %s before deleting them: %w", p.Resource, selector, err)
		}
		return found, nil
	}
	selector, err := labels.Parse(deletion.Selector)
	if err != nil {
		return nil, err
	}
	var found []*object.Object
	for i, kind := range d.program.Owns {
		if kind != p.Resource {
			continue
		}
		for _, o := range d.ownedObjects()[i] {
			if o.Namespace() == namespace && selector.Matches(o.Labels()) {
				found = append(found, o)
			}
		}
	}
	return found, nil
}

// deleteAll deletes the targets and keeps those that failed. One failure does not stop the
// others.
func (d *dependents) deleteAll(ctx context.Context, o *trigger.Response) error {
	var left []trigger.Target
	var errs []error
	for _, t := range o.Targets {
		if err := d.delete(ctx, t); err != nil {
			left, errs = append(left, t), append(errs, err)
		}
	}
	o.Targets = left
	for _, err := range errs {
		if !errors.Is(err, errEvictionRefused) {
			return err
		}
	}
	return errors.Join(errs...)
}

func (d *dependents) delete(ctx context.Context, t trigger.Target) error {
	if d.dry != nil && t.Selector != "" {
		defer d.dry.Explain("matches " + t.Selector)
	}
	if t.Evict {
		return d.evict(ctx, t)
	}
	began := d.Record.Now()
	stored, err := d.writer.Delete(ctx, t.Resource, t.Object)
	d.Record.Wrote(began, record.Write{Verb: plan.Delete, Resource: t.Resource, Before: t.Object, After: stored, Err: err})
	switch {
	case d.isReplaced(ctx, t, err):
		return nil
	case err != nil:
		return fmt.Errorf("delete %s: %w", t.Object.Ref(), err)
	case stored != nil:
		d.noteWritten(t.Resource, stored)
	default:
		d.noteDeleted(t.Resource, t.Object)
	}
	d.Log.Info("deleted", "deleted", t.Object.Ref().String(), "object", d.Stored.Ref().String())
	return nil
}

func (d *dependents) evict(ctx context.Context, t trigger.Target) error {
	began := d.Record.Now()
	err := d.writer.Evict(ctx, t.Resource, t.Object)
	d.Record.Wrote(began, record.Write{Verb: plan.Evict, Resource: t.Resource, Ref: t.Object.Ref(), Err: err})
	switch {
	case apply.TooManyRequests(err):
		return fmt.Errorf("evict %s: %w", t.Object.Ref(), errEvictionRefused)
	case d.isReplaced(ctx, t, err):
		return nil
	case err != nil:
		return fmt.Errorf("evict %s: %w", t.Object.Ref(), err)
	}
	d.Log.Info("evicted", "evicted", t.Object.Ref().String(), "object", d.Stored.Ref().String())
	return nil
}

// isReplaced reports whether a deletion has failed because a new object has the name, which was not selected. A
// conflict alone does not say so: admission webhooks and proxies return it for other reasons.
func (d *dependents) isReplaced(ctx context.Context, t trigger.Target, err error) bool {
	if !apply.Conflict(err) {
		return false
	}
	now, err := d.writer.Get(ctx, t.Resource, t.Object.Namespace(), t.Object.Name())
	return apply.NotFound(err) || err == nil && now.UID() != t.Object.UID()
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
		existing, err := c.writerFor(o.Namespace()).Get(ctx, c.program.Resource, o.Namespace(), o.Name())
		if err != nil || existing.UID() != o.UID() {
			return false
		}
		if !c.rules.HasFinalizer(existing) {
			return true
		}
		body, err := json.Marshal(c.finalizerRemoval(existing))
		if err == nil {
			_, err = c.writerFor(o.Namespace()).Patch(ctx, c.program.Resource, existing, body)
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
	n.Owned = c.program.ownedGroups(c.ownedBy(o))
	ctx, of := c.NewDetachedRun(ctx, o, "it is gone")
	r := c.newDetached(of)
	var response *hook.HandlerResponse
	holds, err := h.Holds(reason, nil, o)
	if err == nil && !holds {
		return
	}
	err = cmp.Or(err, r.checkReads(ctx))
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
