package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// DryRunRequest is the input of a dry run.
type DryRunRequest struct {
	Key queue.Key
	// Object is taken as the next state of the object; it need not be stored. If nil, the stored object is used.
	Object *object.Object
	// SkipCalls lists the calls without making them.
	SkipCalls bool
}

// DryRunResult is what a reconcile of an object would do.
type DryRunResult struct {
	// SkipReason is why no handler would be called; empty otherwise.
	SkipReason string
	// Stored is the current Object, Object the same after the run.
	Stored, Object *object.Object
	// StateChanged means that the record would change. Record is its annotation.
	StateChanged      bool
	HandledAnnotation string
	// Calls are the calls that would be made now, in order.
	Calls []DryRunCall
	// GaveUp are the handlers that wait for the object to change, Timers the next scheduled calls.
	GaveUp []string
	Timers []Timer
	// Secrets are the values of the Secrets in the calls.
	Secrets *redact.Values
}

// Timer is a scheduled call of a handler.
type Timer struct {
	Handler string
	// At is the next scheduled time, unless the object changes within Idle before.
	At   time.Time
	Idle time.Duration
}

var errNoObject = errors.New("not an object of this controller")

// newDryRun returns a run that writes nothing. It takes a given object as the next state of the stored one.
func (c *Controller) newDryRun(of DryRunRequest) (*run, bool) {
	stored := c.Get(of.Key)
	first := cmp.Or(stored, of.Object)
	if first == nil {
		return nil, false
	}
	r := c.newRun(c.NewRun(queue.Item{Key: of.Key}, first))
	r.dry = &dryRun{
		DryWriter: apply.NewDryWriter(r.WriterFor(first.Namespace()), cmp.Or(of.Object, stored)), skipCalls: of.SkipCalls,
	}
	r.writer = r.dry
	for _, h := range r.memory.Handlers {
		h.Resumed = true
	}
	r.observe()
	if given := of.Object; given != nil && given != first {
		r.Stored = given
		r.observe()
	}
	r.Phase = c.PhaseOf(r.Stored)
	r.pass.Managed = r.Phase == controller.PhaseManaged
	if given := of.Object; given != nil && (stored == nil || stored.Digest() != given.Digest()) {
		r.pass.TakeEvents([]trigger.Event{trigger.NewEvent(cache.Event{Old: stored, New: given})})
	}
	return r, true
}

// addIdle adds the handlers that are not called now: those that gave up, and those with a timer.
func (p *DryRunResult) addIdle(of *trigger.Pass) {
	for _, h := range of.Handlers {
		if of.Due.Includes(h) {
			continue
		}
		if h.Entry().Failed {
			p.GaveUp = append(p.GaveUp, h.Title())
		}
		if !of.MayTick(h) {
			continue
		}
		if at := of.NextTick(h); !at.IsZero() {
			p.Timers = append(p.Timers, Timer{Handler: h.Title(), At: at, Idle: h.Idle})
		}
	}
}

// DryRun runs an object with a writer that does not write. It ignores what only a restart would
// trigger, and runs no daemons. The controller must not be running.
func (c *Controller) DryRun(ctx context.Context, of DryRunRequest) (DryRunResult, error) {
	if !c.WaitForSync(ctx) {
		return DryRunResult{}, fmt.Errorf("wait for the watches to sync: %w", context.Cause(ctx))
	}
	r, found := c.newDryRun(of)
	if !found {
		return DryRunResult{}, fmt.Errorf("%s %s: %w", c.program.Resource.Kind, of.Key, errNoObject)
	}
	p := DryRunResult{Stored: r.Stored, Object: r.Stored, HandledAnnotation: c.rules.Record.Annotation, SkipReason: r.Phase.SkipReason(),
		Secrets: r.Secrets}
	if r.Phase == controller.PhasePaused || r.Phase == controller.PhaseIgnored {
		return p, nil
	}
	err := r.Recover(func() error { return cmp.Or(r.reconcileObject(ctx), context.Cause(ctx)) })
	for _, h := range r.pass.Handlers { // An error may be why a handler is not called.
		called := func(c DryRunCall) bool { return c.Handler == h.Title() }
		if err == nil && h.Failed != nil && !slices.ContainsFunc(r.dry.calls, called) {
			err = errors.New(h.Failed.Message)
		}
	}
	p.Object, p.Calls, p.StateChanged = r.Stored, r.dry.calls, !maps.Equal(r.rules.HandledStateOf(r.Stored),
		r.rules.HandledStateOf(p.Stored))
	if p.SkipReason == "" {
		p.addIdle(r.pass)
	}
	return p, err
}
