package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// DryRunRequest is the input of a dry run.
type DryRunRequest struct {
	Key queue.Key
	// Object is taken as the next state of the object; it need not be stored. If nil, the
	// stored object is used.
	Object *object.Object
	// SkipCalls lists the calls without making them.
	SkipCalls bool
}

// DryRunResult is what a reconcile of an object would do.
type DryRunResult struct {
	// SkipReason is why no handler would be called; empty otherwise.
	SkipReason string
	// Stored is the current object. Object is the object after all writes, with the responses,
	// the record, and the finalizer.
	Stored, Object *object.Object
	// StateChanged means that the record would change. Record is its annotation.
	StateChanged      bool
	HandledAnnotation string
	// Calls are the calls that would be made now, in order.
	Calls []DryRunCall
	// GaveUp are the handlers that wait for the object to change, Timers the next scheduled
	// calls.
	GaveUp []string
	Timers []Timer
	// Secrets are the values of the Secrets in the calls.
	Secrets *redact.Values
}

// DryRunCall is a call that would be made, and its result.
type DryRunCall struct {
	Handler string
	Reason  hook.Reason
	// Since is since when the call is pending; zero if unknown.
	Since time.Time
	// Debounce is how long the object must not change before the call.
	Debounce time.Duration
	Attempt  int
	// Changes are the changed fields in the request.
	Changes []hook.FieldChange
	// Response is nil if the handler was not called, or failed with Err.
	Response *hook.HandlerResponse
	Err      error
	// GaveUp means that a failed call would not be retried.
	GaveUp bool
	Writes []DryRunWrite
}

// Timer is a scheduled call of a handler.
type Timer struct {
	Handler string
	// At is the next scheduled time, unless the object changes within Idle before.
	At   time.Time
	Idle time.Duration
}

// errNoObject means that the controller does not have the object.
var errNoObject = errors.New("not an object of this controller")

// DryRun finds the handlers to call for an object, calls them, and returns what their
// responses would write. It writes nothing, and ignores what only a restart would trigger. The
// controller must not be running.
func (c *Controller) DryRun(ctx context.Context, of DryRunRequest) (DryRunResult, error) {
	if !c.WaitForSync(ctx) {
		return DryRunResult{}, fmt.Errorf("wait for the watches to sync: %w", context.Cause(ctx))
	}
	r, found := c.startDryRun(of.Key, of.Object)
	if !found {
		return DryRunResult{}, fmt.Errorf("%s %s: %w", c.program.Resource.Kind, of.Key, errNoObject)
	}
	p := DryRunResult{Stored: r.Stored, Object: r.Stored, HandledAnnotation: c.program.HandledAnnotation, SkipReason: r.Phase.SkipReason(),
		Secrets: r.Secrets}
	var err error
	switch {
	case r.Phase == controller.PhaseReleasing:
		p.Object, err = object.Encode(object.MergePatch(decodeObject(r.Stored.JSON()), map[string]any{"metadata": r.metadataPatch(nil)}))
	case p.SkipReason == "":
		err = r.dryRun(ctx, &p, !of.SkipCalls)
	}
	return p, r.Secrets.Error(err)
}

// startDryRun starts a run that writes nothing. It takes a given object as the next state of
// the stored one.
func (c *Controller) startDryRun(key queue.Key, given *object.Object) (*run, bool) {
	stored := c.Get(key)
	first := cmp.Or(stored, given)
	if first == nil {
		return nil, false
	}
	r := c.newRun(c.NewRun(queue.Item{Key: key}, first))
	r.isDryRun = true
	for _, h := range r.memory.handlers {
		h.resumed = true
	}
	r.observe()
	if given != nil && given != first {
		r.Stored = given
		r.observe()
	}
	r.Phase = c.PhaseOf(r.Stored)
	if given != nil && (stored == nil || stored.Digest() != given.Digest()) {
		r.takeEvents([]observedEvent{observed(cache.Event{Old: stored, New: given})})
	}
	return r, true
}

// dryRun takes the steps of a run, except those that write.
func (r *run) dryRun(ctx context.Context, into *DryRunResult, makeCalls bool) error {
	if err := r.checkReads(ctx); err != nil {
		return err
	}
	if makeCalls {
		if err := r.matchHandlers(ctx); err != nil {
			return err
		}
		if failed := r.firstError(); failed != nil {
			return errors.New(failed.message)
		}
	}
	if err := r.dryRunFinalizer(); err != nil {
		return err
	}
	if err := r.loadPreviousStates(ctx); err != nil {
		return err
	}
	r.skipDebounce()
	r.decide()
	into.Timers, into.GaveUp = r.timers(), r.gaveUp()
	var applied []*pendingResponse
	for _, c := range r.callsInOrder() {
		f := r.newDryRunCall(c)
		if o := r.dryRunCall(ctx, c, &f, makeCalls); o != nil {
			applied = append(applied, o)
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		into.Calls = append(into.Calls, f)
	}
	var err error
	into.Object, into.StateChanged, err = r.dryRunObject(applied)
	return err
}

// callsInOrder returns the calls in the order of the program: each handler is called for
// events first, then for what is pending.
func (r *run) callsInOrder() []call {
	var all []call
	due := r.pending.calls
	for _, h := range r.memory.handlers {
		for _, e := range h.events {
			all = append(all, r.eventCall(h, e))
		}
		if len(due) > 0 && due[0].handler == h {
			all, due = append(all, due[0]), due[1:]
		}
	}
	return all
}

// dryRunFinalizer sets the finalizer on the object that the handlers see.
func (r *run) dryRunFinalizer() error {
	if !r.addsFinalizer() {
		return nil
	}
	finalizers := append(r.program.withoutOwnFinalizers(r.Stored), r.program.Finalizer)
	held, err := r.Stored.With(toJSON(finalizers), "metadata", "finalizers")
	if err != nil {
		return failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("add the finalizer: %w", err))
	}
	r.Stored = held
	r.observe()
	return nil
}

// skipDebounce ends all debounce periods, so that a dry run does not have to wait for them.
func (r *run) skipDebounce() {
	now := r.tools.Now()
	for _, h := range r.memory.handlers {
		if h.Debounce > 0 {
			h.watchedSince = now.Add(-h.Debounce)
		}
	}
}

// newDryRunCall returns a call without its result.
func (r *run) newDryRunCall(c call) DryRunCall {
	f := DryRunCall{Handler: c.handler.title(), Reason: c.reason, Since: r.pendingSince(c), Attempt: c.attempt,
		Changes: r.request(c).Changes}
	if c.reason == hook.ReasonUpdate {
		f.Debounce = c.handler.Debounce
	}
	return f
}

// pendingSince returns since when a call is pending, by the times in the object; zero if they
// do not have it.
func (r *run) pendingSince(c call) time.Time {
	e := r.storedState[c.handler.Name]
	switch {
	case e.Attempts > 0:
		return time.Unix(e.Since, 0)
	case c.reason == hook.ReasonCreate:
		return createdAt(c.object)
	case c.reason == hook.ReasonDelete:
		return c.object.Time("deletionTimestamp")
	case c.reason == hook.ReasonUpdate && e.InProgress != "":
		return time.Unix(e.InProgressSince, 0)
	}
	return time.Time{}
}

// timers returns the next scheduled calls of the handlers that are not called now.
func (r *run) timers() []Timer {
	var timers []Timer
	for _, h := range r.memory.handlers {
		if !r.mayTick(h) || r.pending.includes(h) {
			continue
		}
		if at := r.nextTick(h); !at.IsZero() {
			timers = append(timers, Timer{Handler: h.title(), At: at, Idle: h.Idle})
		}
	}
	return timers
}

// gaveUp returns the handlers that gave up on the object as it is.
func (r *run) gaveUp() []string {
	var names []string
	for _, h := range r.memory.handlers {
		if h.entry().Failed && !r.pending.includes(h) {
			names = append(names, h.title())
		}
	}
	return names
}
