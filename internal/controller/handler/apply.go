package handler

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// systemFields are the fields of metadata that the API server sets. A handler may return them
// with an object, so apply removes them.
var systemFields = []string{"selfLink", "uid", "resourceVersion", "generation", "creationTimestamp",
	"deletionTimestamp", "deletionGracePeriodSeconds", "managedFields"}

// applyObject applies one object. Ownership is checked only for owned kinds.
func (d *dependents) applyObject(ctx context.Context, a hook.AppliedObject) error {
	resource, desired, err := d.desiredObject(a)
	switch {
	case err != nil:
		return err
	case resource.Unserved && d.Stored.Deleting():
		d.Log.Debug("not applied: the kind is not served", "applied", desired.Ref().String())
		return nil
	case resource.Unserved:
		// No watch would show it: the next run would see it as deleted, which is drift.
		return fmt.Errorf("apply %s: %s: %w any more", desired.Ref(), resource, served.ErrNotServed)
	case d.isUnchanged(desired):
		return nil
	}
	began, write := d.Record.Now(), d.newWrite(resource, desired)
	stored, err := d.createOrApply(ctx, resource, desired)
	write.After, write.Err = stored, err
	d.Record.Wrote(began, write)
	if apply.Terminating(err) {
		// The namespace accepts no new objects.
		d.Log.Debug("not applied: namespace is terminating", "applied", desired.Ref().String())
		return nil
	}
	if err != nil {
		return fmt.Errorf("apply %s: %w", desired.Ref(), err)
	}
	d.noteWritten(resource, stored)
	d.rememberApplied(desired, stored)
	d.Log.Debug("applied", "applied", desired.Ref().String(), "object", d.Stored.Ref().String())
	return nil
}

// newWrite returns the record of a write, as far as it is known before the write.
func (d *dependents) newWrite(resource object.Resource, desired *object.Object) record.Write {
	known, watched := d.watchedObject(resource, desired)
	w := record.Write{Verb: plan.Apply, Resource: resource, Ref: desired.Ref(), Before: known}
	if watched && known == nil {
		w.Verb = plan.Create
	}
	return w
}

// createOrApply creates or applies an object. It creates an owned object unless a watch
// already has it: a POST costs the API server less than an apply, and fails if another owner
// has the name.
func (d *dependents) createOrApply(ctx context.Context, resource object.Resource, desired *object.Object) (*object.Object, error) {
	writer, manager := d.writer, d.program.Manager
	known, watched := d.watchedObject(resource, desired)
	if !watched || !d.isOwned(desired) || known != nil && d.isOwned(known) {
		return writer.Apply(ctx, resource, desired, manager)
	}
	stored, err := writer.CreateFor(ctx, resource, desired, manager)
	if !apply.AlreadyExists(err) {
		return stored, err
	}
	if err := d.checkOwnership(ctx, resource, desired); err != nil {
		return nil, err
	}
	return writer.Apply(ctx, resource, desired, manager)
}

// checkOwnership returns an error if the object exists and may not be taken over. It may if
// the handled object controls it, or if the program created it and another client removed the
// owner reference. Without this check, deleting the handled object would delete objects of
// others.
func (d *dependents) checkOwnership(ctx context.Context, resource object.Resource, desired *object.Object) error {
	existing, err := d.writer.Ownership(ctx, resource, desired.Namespace(), desired.Name())
	if err != nil {
		return fmt.Errorf("it already exists; read its owner: %w", err)
	}
	owner, owned := existing.Controller()
	switch {
	case d.isOwned(existing.Object):
		return nil
	case owned:
		return fmt.Errorf("it already exists and is owned by %s %s", owner.Kind, owner.Name)
	case slices.Contains(existing.Managers, d.program.Manager):
		return nil
	}
	return errors.New("it already exists and has no owner; delete it or use another name")
}

// watchedObject returns an object from the watches, or nil. watched is false if the watches do
// not cover it, so that nil means nothing.
func (c *Controller) watchedObject(resource object.Resource, o *object.Object) (known *object.Object, watched bool) {
	for _, w := range c.owned {
		if w.Covers(resource, o) {
			return w.View.Get(o.Namespace(), o.Name()), true
		}
	}
	return nil, false
}

// desiredObject returns an object in the form to apply, and its kind.
func (d *dependents) desiredObject(a hook.AppliedObject) (object.Resource, *object.Object, error) {
	given, err := object.Parse(a.Object)
	if err != nil {
		return object.Resource{}, nil, err
	}
	resource, err := d.permissions.ResourceToApply(d.Stored.Namespace(), given)
	if err != nil {
		return object.Resource{}, nil, err
	}
	desired, err := d.withOwner(resource, given, a.Unowned)
	return resource, desired, err
}

// withOwner returns an object with the namespace and the owner reference added where they are
// missing.
func (d *dependents) withOwner(resource object.Resource, given *object.Object, unowned bool) (*object.Object, error) {
	text := given.Field("metadata")
	if text == nil {
		return nil, fmt.Errorf("apply %s: metadata must be an object", given.Ref())
	}
	metadata := object.DecodeOrEmpty(text)
	for _, name := range systemFields {
		delete(metadata, name)
	}
	delete(metadata, "namespace")
	namespace := permit.NamespaceFor(resource, d.Stored.Namespace(), given.Namespace())
	if namespace != "" {
		metadata["namespace"] = namespace
	}
	if !unowned && (d.Stored.Namespace() == "" || d.Stored.Namespace() == namespace) {
		owners, _ := metadata["ownerReferences"].([]any)
		metadata["ownerReferences"] = append(withoutOwner(owners, d.Stored.UID()), plan.OwnerReferenceTo(d.Stored))
	}
	text, err := json.Marshal(metadata)
	if err != nil {
		return nil, err
	}
	return given.Edited(object.Edit{Path: []string{"status"}}, object.Edit{Path: []string{"metadata"}, Value: text})
}

// withoutOwner returns the owner references without those to one UID.
func withoutOwner(owners []any, uid string) []any {
	var kept []any
	for _, owner := range owners {
		if members, isObject := owner.(map[string]any); !isObject || members["uid"] != uid {
			kept = append(kept, owner)
		}
	}
	return kept
}

// isOwned reports whether the handled object controls an object.
func (d *dependents) isOwned(o *object.Object) bool { return o.ControlledBy(d.Stored.UID()) }

// matchHandlers is the step that finds out which conditional handlers are applicable.
func (r *run) matchHandlers(ctx context.Context) error {
	if r.dry != nil && r.dry.skipCalls {
		return nil
	}
	for _, h := range r.memory.Handlers {
		if r.pass.AsksMatch(h) {
			r.matchHandler(ctx, h)
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// matchHandler calls a handler with hook.ReasonMatch.
func (r *run) matchHandler(ctx context.Context, h *trigger.State) {
	state := r.pass.State()
	n := r.newRequest(h.Handler, r.Stored)
	n.Reason, n.DryRun, n.Owned = hook.ReasonMatch, r.IsDry(), r.program.ownedGroups(r.dependents.byKind)
	n.Attempt, n.FirstAttempt = h.MatchAttempt.Count, h.MatchAttempt.Since
	r.pass.CountChange(trigger.Call{Handler: h, Reason: hook.ReasonMatch, Object: r.Stored, Repeated: n.Attempt > 0})
	response, err := r.invoke(ctx, r.Run, n, h.Handler)
	if err == nil || ctx.Err() == nil {
		r.pass.Matched(h, state, err == nil && !response.NotApplicable, err)
	}
}

// evictionRetryDelay is the delay after a refused eviction. A refusal is not a failure.
const evictionRetryDelay = 2 * time.Second

// evictionEventDelay is how long budgets refuse evictions before Setpoint sends an event. A
// budget that allows one pod at a time refuses often, for a moment.
const evictionEventDelay = 10 * time.Second

// errEvictionRefused means that a budget refused some evictions of a response.
var errEvictionRefused = errors.New("a PodDisruptionBudget allows no more evictions now")

// apply deletes and applies the objects of a response and reports whether all is done. It
// retries with backoff, without another call of the handler.
func (r *run) apply(ctx context.Context, o *trigger.Response) bool {
	now := r.tools.Now()
	if !o.Applied && !o.Fresh && o.Attempt.Next.After(now) && !r.pass.RetriesWrites() {
		return false
	}
	applied := o.Applied
	err := r.dependents.applyResponse(ctx, o)
	if r.dry != nil && err != nil {
		r.dry.notApplied(err)
	}
	switch {
	case err == nil:
		if !applied {
			if o.Attempt.Count > 0 {
				o.Call.Handler.Failed = nil
			}
			o.Attempt = trigger.Attempt{}
			delete(r.memory.evictions, o.Call.Handler)
		}
		return true
	case ctx.Err() != nil:
	case errors.Is(err, errEvictionRefused):
		o.Attempt.Next = now.Add(evictionRetryDelay)
		r.reportRefusedEviction(o.Call.Handler, err)
	case hook.IsTerminal(err):
		r.dropRefused(o, err)
	default:
		o.Attempt.Failed(now, r.tools.Queue.Random)
		r.recordError(o.Call.Handler, failure.WithReason(controller.ReasonWriteFailed,
			fmt.Errorf("handler %s: %w", o.Call.Handler.Title(), err)))
	}
	return false
}

// evictionWait records since when budgets refuse the evictions of a handler, and whether an
// event was sent.
type evictionWait struct {
	since    time.Time
	reported bool
}

// reportRefusedEviction sends one event when budgets have refused for long, also if the
// handler was called again meanwhile.
func (r *run) reportRefusedEviction(h *trigger.State, err error) {
	wait, now := r.memory.evictions[h], r.tools.Now()
	switch {
	case wait.since.IsZero():
		wait.since = now
		if r.memory.evictions == nil {
			r.memory.evictions = map[*trigger.State]evictionWait{}
		}
	case !wait.reported && now.Sub(wait.since) >= evictionEventDelay:
		wait.reported = true
		message := failure.OneLine(err)
		r.Log.Warn("eviction refused", "object", r.Stored.Ref().String(), "error", message)
		r.SendEvent(hook.Event{Type: controller.Warning, Reason: trigger.ReasonEvictionRefused, Message: message})
	}
	r.memory.evictions[h] = wait
}

// dropRefused drops a response that can never be applied.
func (r *run) dropRefused(o *trigger.Response, err error) {
	r.pass.Drop(o)
	o.TakeBack()
	r.pass.GiveUp(o.Call, fmt.Errorf("handler %s: %w", o.Call.Handler.Title(), err))
}

// ownedWritten records a write to an owned object; stored is nil after a deletion.
func (d *dependents) ownedWritten(ref object.Ref, stored *object.Object) {
	d.stale, d.written = true, true
	d.noteApplied(ref, stored)
	d.now = slices.DeleteFunc(d.now, func(o *object.Object) bool { return o.Ref() == ref })
	if stored != nil && stored.ControlledBy(d.Stored.UID()) {
		d.now = append(d.now, stored)
	}
}

// applyResponse deletes objects first, and then applies.
func (d *dependents) applyResponse(ctx context.Context, o *trigger.Response) error {
	if o.Applied {
		return nil
	}
	if err := d.resolveDeletions(ctx, o); err != nil {
		return err
	}
	if err := d.deleteAll(ctx, o); err != nil {
		return err
	}
	for _, a := range o.Response.Apply[o.AppliedCount:] {
		if err := d.applyObject(ctx, a); err != nil {
			return err
		}
		o.AppliedCount++
	}
	o.Applied = true
	return nil
}

// noteWritten updates the caches after a write.
func (d *dependents) noteWritten(resource object.Resource, stored *object.Object) {
	d.ObserveWrite(resource, stored)
	if slices.Contains(d.program.Owns, resource) {
		d.ownedWritten(stored.Ref(), stored)
	}
}

// noteDeleted updates the caches after a deletion.
func (d *dependents) noteDeleted(resource object.Resource, o *object.Object) {
	d.ObserveDelete(resource, o)
	if slices.Contains(d.program.Owns, resource) {
		d.ownedWritten(o.Ref(), nil)
	}
}
