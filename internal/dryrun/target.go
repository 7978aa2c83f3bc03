package dryrun

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// target is an object to run.
type target struct {
	loop *loop
	key  queue.Key
	// manifest is the object in a file; nil for the stored one.
	manifest  *object.Object
	callsOnly bool
	notes     []string
	// err is why it cannot be run.
	err error
}

func (s target) dryRun(ctx context.Context, r *run) Object {
	seen := Object{Ref: refOf(s.loop.kind.Ref(s.key.Namespace, s.key.Name)), Notes: s.notes}
	if s.err != nil {
		seen.Error = newProblem(s.err)
		return seen
	}
	do := s.planCompose
	if s.loop.handle != nil {
		do = s.planHandlers
	}
	values := do(ctx, r, &seen)
	ref, mask := seen.Ref, func(raw json.RawMessage) json.RawMessage { return values.JSON(raw, false) }
	seen = redact.EachText(seen, values.Text, mask)
	seen.Ref, seen.held = ref, redact.EachText(seen.held, values.Text, mask)
	return seen
}

// planCompose calls the hook and sends its plan as dry runs. It returns the values of the Secrets that it has seen.
func (s target) planCompose(ctx context.Context, r *run, into *Object) *redact.Values {
	preview, err := s.loop.compose.DryRun(ctx, s.key, s.manifest)
	if err != nil {
		into.Error = newProblem(r.withWatchErr(ctx, err))
	}
	if preview.Parent == nil {
		return preview.Secrets
	}
	into.Hook, into.Skipped = preview.Hook, preview.SkipReason
	into.Changes = dryRunPlan(ctx, r, preview.Plan, into.setResponse(preview.Response))
	for i := range into.Changes {
		change := &into.Changes[i]
		change.removal = change.Action == string(plan.Delete) &&
			slices.ContainsFunc(preview.Removals, func(a plan.Action) bool { return changeOf(a).Ref == change.Ref })
	}
	if err := into.diffObject(ctx, r, s.loop.kind, preview.Stored, preview.Parent); err != nil && into.Error == nil {
		into.Error = newProblem(err)
	}
	if preview.Held != nil {
		var held Object
		if err := held.diffObject(ctx, r, s.loop.kind, preview.Stored, preview.Held); err != nil {
			into.Error = newProblem(err)
		}
		into.held = held.Fields
	}
	return preview.Secrets
}

// diffObject returns the changes of the object itself.
func (o *Object) diffObject(ctx context.Context, r *run, resource object.Resource, stored, wanted *object.Object) error {
	if wanted.Digest() == stored.Digest() {
		return nil
	}
	tried, err := r.updateObject(ctx, resource, stored, wanted)
	if err != nil {
		return fmt.Errorf("the API server rejects the update of %s: %w", stored.Ref(), err)
	}
	changes, err := plan.Compare(stored, tried)
	o.Fields = fields(changes)
	return err
}

// heldReason says why deletions would be held.
const heldReason = "the deletion guard holds it until a user confirms it"

// holdDeletions marks deletions as held if there are too many in total, and shows the status of objects for that case.
func (c *Controller) holdDeletions(r *run) {
	removals := map[*Change]*Object{}
	for i := range c.Objects {
		o := &c.Objects[i]
		for j := range o.Changes {
			if o.Changes[j].removal {
				removals[&o.Changes[j]] = o
			}
		}
	}
	if !r.exceedsDeletionGuard(len(removals)) {
		return
	}
	for change, of := range removals {
		change.Held, of.Fields = heldReason, of.held
	}
}

// planHandlers calls the handlers of the object and sends their writes as dry runs. It returns the values of the Secrets
// that it has seen.
func (s target) planHandlers(ctx context.Context, r *run, into *Object) *redact.Values {
	preview, err := s.loop.handle.DryRun(ctx, handler.DryRunRequest{Key: s.key, Object: s.manifest, SkipCalls: s.callsOnly})
	if err != nil {
		into.Error = newProblem(r.withWatchErr(ctx, err))
	}
	if preview.Object == nil {
		return preview.Secrets
	}
	into.Skipped, into.GivenUp, into.RecordChanged = preview.SkipReason, preview.GaveUp, preview.StateChanged
	for _, t := range preview.Timers {
		into.Timers = append(into.Timers, Timer{Handler: t.Handler, At: t.At.UTC(), IdleSeconds: t.Idle.Seconds()})
	}
	for _, call := range preview.Calls {
		c := callOf(preview.Stored, call)
		c.dryRun(ctx, r, call.Writes)
		into.Calls = append(into.Calls, c)
	}
	if err := into.diffObject(ctx, r, s.loop.kind, preview.Stored, preview.Object); err != nil && into.Error == nil {
		into.Error = newProblem(err)
	}
	records := [...]string{`metadata.annotations["` + preview.HandledAnnotation + `"]`, "status." + lasthandled.StatusField}
	into.Fields = slices.DeleteFunc(into.Fields, func(f FieldChange) bool {
		return f.Path == records[0] || strings.HasPrefix(f.Path, records[1])
	})
	return preview.Secrets
}

func callOf(of *object.Object, f handler.DryRunCall) Call {
	c := Call{
		Handler: f.Handler, Reason: string(f.Reason), DebounceSeconds: f.Debounce.Seconds(), Attempt: f.Attempt,
		Called: f.Response != nil || f.Err != nil, GaveUp: f.GaveUp,
	}
	if !f.Since.IsZero() {
		since := f.Since.UTC()
		c.Since = &since
	}
	changes := lists.Map(f.Changes, func(c hook.FieldChange) object.FieldChange { return object.FieldChange(c) })
	c.ChangedFields = fields(redact.Changes(of.GroupKind(), changes))
	if f.Response != nil && (f.Err == nil || f.Response.Err != nil) {
		c.RetryAfterSeconds = f.Response.RetryAfter.Seconds()
		c.Events, c.NotApplicable = f.Response.Events, f.Response.NotApplicable
	}
	if f.Err != nil {
		c.Error = newProblem(f.Err)
		after, _ := hook.RetryDelay(f.Err)
		c.RetryAfterSeconds = after.Seconds()
	}
	return c
}

// dryRun sends the writes of a response as dry runs.
func (c *Call) dryRun(ctx context.Context, r *run, writes []plan.Action) {
	var p plan.Plan
	for _, a := range writes {
		p.Stages = append(p.Stages, []plan.Action{a})
	}
	changes := dryRunPlan(ctx, r, p, nil)
	for _, a := range writes {
		ref := changeOf(a).Ref
		at := slices.IndexFunc(changes, func(c Change) bool { return c.Ref == ref })
		if at < 0 {
			c.Unchanged = append(c.Unchanged, ref)
			continue
		}
		c.Changes, changes = append(c.Changes, changes[at]), slices.Delete(changes, at, at+1)
	}
}
