package dryrun

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// Call is one call of a handler and its result.
type Call struct {
	Handler string `json:"handler"`
	// Reason is why the handler is called, such as "Update".
	Reason string `json:"reason"`
	// Since is when the call became due, if the object says so.
	Since *time.Time `json:"since,omitempty"`
	// DebounceSeconds is how long the object must be unchanged before the call.
	DebounceSeconds float64 `json:"debounceSeconds,omitempty"`
	// Attempt is the number of failed calls so far.
	Attempt int `json:"attempt,omitempty"`
	// ChangedFields are the changed fields in the request, if known.
	ChangedFields []FieldChange `json:"changedFields,omitempty"`
	// Called means that the handler was called: the rest is its response.
	Called bool `json:"called"`
	// Changes are changes of other objects, in order. Unchanged are applied objects that would not
	// change.
	Changes   []Change     `json:"changes,omitempty"`
	Unchanged []Ref        `json:"unchanged,omitempty"`
	Events    []hook.Event `json:"events,omitempty"`
	// RetryAfterSeconds is the delay of the next retry that the handler chose.
	RetryAfterSeconds float64 `json:"retryAfterSeconds,omitempty"`
	// NotApplicable means that the handler does not handle the object as it is.
	NotApplicable bool `json:"notApplicable,omitempty"`
	// Error is why nothing would be written, except what the handler returned beside it. GaveUp means
	// that there is no retry until the object changes.
	Error  *Problem `json:"error,omitempty"`
	GaveUp bool     `json:"gaveUp,omitempty"`
}

// Timer is a scheduled call of a handler.
type Timer struct {
	Handler string    `json:"handler"`
	At      time.Time `json:"at"`
	// IdleSeconds is how long the object must be unchanged before the call.
	IdleSeconds float64 `json:"idleSeconds,omitempty"`
}

// planHandlers calls the handlers of the object and sends their writes as dry runs. It returns the values of the Secrets
// that it has seen.
func (s target) planHandlers(ctx context.Context, r *run, into *Object) *redact.Values {
	preview, err := r.handlers[s.program-len(r.composers)].DryRun(ctx, handler.DryRunRequest{Key: s.key, Object: s.manifest,
		SkipCalls: s.callsOnly})
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
	if err := into.diffObject(ctx, r, r.kinds()[s.program], preview.Stored, preview.Object); err != nil && into.Error == nil {
		into.Error = newProblem(err)
	}
	records := [...]string{`metadata.annotations["` + preview.HandledAnnotation + `"]`, "status." + lasthandled.StatusField}
	into.Fields = slices.DeleteFunc(into.Fields, func(f FieldChange) bool {
		return f.Path == records[0] || strings.HasPrefix(f.Path, records[1])
	})
	return preview.Secrets
}

// callOf converts a call.
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
