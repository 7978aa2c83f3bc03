package dryrun

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller/handle"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Call is one call of a handler, and what would come of it.
type Call struct {
	Handler string `json:"handler"`
	// Reason is what the handler would be told, such as "update".
	Reason string `json:"reason"`
	// Since is since when it is due, where the object says so.
	Since *time.Time `json:"since,omitempty"`
	// DebounceSeconds is for how long nothing may have changed before.
	DebounceSeconds float64 `json:"debounceSeconds,omitempty"`
	// Attempt counts the calls that failed already.
	Attempt int `json:"attempt,omitempty"`
	// ChangedFields are the fields that have changed, as far as that is known.
	ChangedFields []FieldChange `json:"changedFields,omitempty"`
	// Called says that the handler was asked: what follows is by its answer.
	Called bool `json:"called"`
	// Changes are those of other objects, in the order in which they would be made;
	// Same are objects to apply that are as they are to be.
	Changes   []Change `json:"changes,omitempty"`
	Unchanged []Ref    `json:"unchanged,omitempty"`
	// Events would be told at the object.
	Events []Event `json:"events,omitempty"`
	// RetryAfterSeconds is when the handler wants to be told the same again.
	RetryAfterSeconds float64 `json:"retryAfterSeconds,omitempty"`
	// Error is why nothing would be written; GaveUp says that it is not called again
	// before the object changes.
	Error  *Problem `json:"error,omitempty"`
	GaveUp bool     `json:"gaveUp,omitempty"`
}

// Timer is when the clock has a handler told.
type Timer struct {
	Handler string    `json:"handler"`
	At      time.Time `json:"at"`
	// IdleSeconds is for how long nothing may have changed before.
	IdleSeconds float64 `json:"idleSeconds,omitempty"`
}

// planHandlers finds out who would be told of the object, and has the API server try
// what they answer.
func (s target) planHandlers(ctx context.Context, r *manager.DryRun, into *Object) {
	preview, err := r.RunHandlers(ctx, s.program, handle.DryRunRequest{Key: s.key, Object: s.manifest, SkipCalls: s.callsOnly})
	if err != nil {
		into.Error = newProblem(err)
		return
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
	if err := into.diffObject(ctx, r, r.Kinds()[s.program], preview.Stored, preview.Object); err != nil {
		into.Error = newProblem(err)
	}
	record := `metadata.annotations["` + preview.HandledAnnotation + `"]`
	into.Fields = slices.DeleteFunc(into.Fields, func(f FieldChange) bool { return f.Path == record })
}

// callOf is a call in the words of the report.
func callOf(of *object.Object, f handle.DryRunCall) Call {
	c := Call{
		Handler: f.Handler, Reason: string(f.Reason), DebounceSeconds: f.Debounce.Seconds(), Attempt: f.Attempt,
		Called: f.Response != nil || f.Err != nil, GaveUp: f.GaveUp,
	}
	if !f.Since.IsZero() {
		since := f.Since.UTC()
		c.Since = &since
	}
	changes := make([]object.FieldChange, len(f.Changes))
	for i, change := range f.Changes {
		changes[i] = object.FieldChange(change)
	}
	c.ChangedFields = fields(plan.MaskSecret(of, changes))
	if f.Err != nil {
		c.Error = newProblem(f.Err)
		c.RetryAfterSeconds = delayOf(f.Err).Seconds()
		return c
	}
	if f.Response != nil {
		c.RetryAfterSeconds = f.Response.RetryAfter.Seconds()
		c.Events = eventsOf(f.Response.Events)
	}
	return c
}

// dryRun has the API server say what would come of an answer's writes, one after the
// other.
func (c *Call) dryRun(ctx context.Context, r *manager.DryRun, writes []handle.DryRunWrite) {
	var p plan.Plan
	for _, w := range writes {
		if !w.Evict {
			p.Stages = append(p.Stages, []plan.Action{w.Action})
		}
	}
	changes := dryRunPlan(ctx, r, p, nil)
	for _, w := range writes {
		ref := changeOf(w.Action).Ref
		at := slices.IndexFunc(changes, func(c Change) bool { return c.Ref == ref })
		switch {
		case w.Evict:
			c.Changes = append(c.Changes, evictionOf(w.Action, r.Evict(ctx, w.Resource, w.Before)))
		case at < 0:
			c.Unchanged = append(c.Unchanged, ref)
		default:
			c.Changes, changes = append(c.Changes, changes[at]), slices.Delete(changes, at, at+1)
		}
	}
}

// evictionOf is an eviction as the API server has it.
func evictionOf(a plan.Action, err error) Change {
	c := changeOf(a)
	c.Action = "evict"
	switch {
	case apply.TooManyRequests(err):
		c.Reason = strings.TrimPrefix(c.Reason+"; not now: its PodDisruptionBudget does not allow it", "; ")
	case err != nil:
		c.Error = newProblem(fmt.Errorf("the API server refuses it: %w", err))
	}
	return c
}
