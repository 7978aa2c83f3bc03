package preview

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/host"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// Call is one call of a handler, and what would come of it.
type Call struct {
	Handler string `json:"handler"`
	// Reason is what the handler would be told, such as "update".
	Reason string `json:"reason"`
	// Since is since when it is due, where the object says so.
	Since *time.Time `json:"since,omitempty"`
	// SettleSeconds is for how long nothing may have changed before.
	SettleSeconds float64 `json:"settleSeconds,omitempty"`
	// Attempt counts the calls that failed already.
	Attempt int `json:"attempt,omitempty"`
	// Told are the fields that have changed, as far as that is known.
	Told []Field `json:"told,omitempty"`
	// Asked says that the handler was asked: what follows is by its answer.
	Asked bool `json:"asked"`
	// Changes are those of other objects, in the order in which they would be made;
	// Same are objects to apply that are as they are to be.
	Changes []Change `json:"changes,omitempty"`
	Same    []Ref    `json:"same,omitempty"`
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

// lookHandlers finds out who would be told of the object, and has the API server try
// what they answer.
func (s subject) lookHandlers(ctx context.Context, r *host.Rehearsal, into *Object) {
	preview, err := r.PreviewHandlers(ctx, s.program, react.Subject{Key: s.key, Given: s.given, Unasked: s.unasked})
	if err != nil {
		into.Error = problem(err)
		return
	}
	into.Untouched, into.GivenUp, into.Recorded = preview.Untouched, preview.GivenUp, preview.Recorded
	for _, t := range preview.Timers {
		into.Timers = append(into.Timers, Timer{Handler: t.Handler, At: t.At.UTC(), IdleSeconds: t.Idle.Seconds()})
	}
	for _, foreseen := range preview.Calls {
		c := callOf(preview.Stored, foreseen)
		c.try(ctx, r, foreseen.Writes)
		into.Calls = append(into.Calls, c)
	}
	if err := into.compareSelf(ctx, r, r.Kinds()[s.program], preview.Stored, preview.Object); err != nil {
		into.Error = problem(err)
	}
	record := `metadata.annotations["` + preview.Record + `"]`
	into.Fields = slices.DeleteFunc(into.Fields, func(f Field) bool { return f.Path == record })
}

// callOf is a call in the words of the report.
func callOf(of *object.Object, f react.Foreseen) Call {
	c := Call{
		Handler: f.Handler, Reason: string(f.Reason), SettleSeconds: f.Settle.Seconds(), Attempt: f.Attempt,
		Asked: f.Answer != nil || f.Err != nil, GaveUp: f.GaveUp,
	}
	if !f.Since.IsZero() {
		since := f.Since.UTC()
		c.Since = &since
	}
	c.Told = fields(plan.Masked(of, told(f.Changes)))
	if f.Err != nil {
		c.Error = problem(f.Err)
		c.RetryAfterSeconds = delayOf(f.Err).Seconds()
		return c
	}
	if f.Answer != nil {
		c.RetryAfterSeconds = f.Answer.RetryAfter.Seconds()
		c.Events = eventsOf(f.Answer.Events)
	}
	return c
}

func told(changes []hook.FieldChange) []plan.Change {
	all := make([]plan.Change, len(changes))
	for i, c := range changes {
		all[i] = plan.Change{Path: c.Path, Before: c.Old, After: c.New}
	}
	return all
}

// try has the API server say what would come of an answer's writes, one after the
// other.
func (c *Call) try(ctx context.Context, r *host.Rehearsal, writes []react.Foreplan) {
	var p plan.Plan
	for _, w := range writes {
		if !w.Evict {
			p.Stages = append(p.Stages, []plan.Action{w.Action})
		}
	}
	changes := try(ctx, r, p, nil)
	for _, w := range writes {
		ref := changeOf(w.Action).Ref
		at := slices.IndexFunc(changes, func(c Change) bool { return c.Ref == ref })
		switch {
		case w.Evict:
			c.Changes = append(c.Changes, evicted(w.Action, r.TryEviction(ctx, w.Resource, w.Before)))
		case at < 0:
			c.Same = append(c.Same, ref)
		default:
			c.Changes, changes = append(c.Changes, changes[at]), slices.Delete(changes, at, at+1)
		}
	}
}

// evicted is an eviction as the API server has it.
func evicted(a plan.Action, err error) Change {
	c := changeOf(a)
	c.Action = "evict"
	switch {
	case apply.Refused(err):
		c.Reason = strings.TrimPrefix(c.Reason+"; not now: its PodDisruptionBudget does not allow it", "; ")
	case err != nil:
		c.Error = problem(fmt.Errorf("the API server refuses it: %w", err))
	}
	return c
}
