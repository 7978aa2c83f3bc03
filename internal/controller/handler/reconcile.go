package handler

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
)

// reconcile runs the steps for one object. Each handler fails and retries separately.
func (c *Controller) reconcile(ctx context.Context, item queue.Item) queue.Outcome {
	if c.gate.Holds(item) {
		return queue.NoRequeue()
	}
	events := c.eventBuffer.Take(item.Key)
	c.handleDeletions(ctx, events)
	return c.Reconcile(ctx, item, func(ctx context.Context, of *controller.Run) (record.Outcome, queue.Outcome) {
		r := c.newRun(of)
		r.observe()
		r.pass.TakeEvents(events)
		r.fail(r.releaseAbandoned(ctx, r.Recover(func() error { return r.reconcileObject(ctx) })))
		return r.finish(ctx), queue.NoRequeue()
	})
}

// reconcileObject calls the pending handlers and writes their responses.
func (r *run) reconcileObject(ctx context.Context) error {
	if err := r.prepare(ctx); err != nil {
		return err
	}
	for _, d := range r.memory.daemons {
		if !r.IsDry() {
			d.update(ctx, r)
		}
	}
	if r.Phase == controller.PhasePaused {
		return nil
	}
	if r.Phase == controller.PhaseManaged {
		r.pass.Decide()
	}
	if err := r.callHandlers(ctx); !errors.Is(err, errGone) && ctx.Err() == nil {
		return err
	}
	return nil
}

func (r *run) prepare(ctx context.Context) error {
	if err := r.CheckReads(ctx); err != nil {
		return err
	}
	if err := r.dependents.findApplied(ctx); err != nil {
		return err
	}
	r.pass.OwnedDigest = r.dependents.ownedDigest()
	if err := r.matchHandlers(ctx); err != nil {
		return err
	}
	return r.setFinalizer(ctx)
}

// newRun is the first step: it loads the memory of the object. For a fresh one, the record on
// the object decides what to resume.
func (c *Controller) newRun(of *controller.Run) *run {
	r := c.newDetached(of)
	r.memory = of.Remembered.(*memory)
	r.pass = trigger.NewPass(trigger.Observation{
		Rules: c.rules, Object: r.Stored, Causes: of.Item.Causes, Managed: r.Phase == controller.PhaseManaged, Dry: r.IsDry(),
		Now: c.Now, Random: c.QueueOptions.Random, Fail: r.recordError,
	}, &r.memory.States)
	if of.Fresh {
		r.dependents.restoreApplied(r.pass.Recorded)
		daemons := lists.Filter(r.memory.Handlers, func(h *trigger.State) bool { return h.Daemon != nil })
		r.memory.daemons = lists.Map(daemons, func(h *trigger.State) *daemonState { return &daemonState{State: h} })
	}
	return r
}

// observe reads the object and what it owns, at the start of a run and after its writes.
func (r *run) observe() {
	defer r.seeCached()
	r.object.stale = false
	r.dependents.observe()
	if r.pass.Observe(r.Stored, r.dependents.ownedDigest()) {
		r.memory.noteStateRemoval(r.Now(), r.QueueOptions.Random)
		r.Log.Info("another client removed the handled state; writing it again", "object", r.Stored.Ref().String())
	}
}

// seeCached adds the values of the Secrets that a write may quote before the first call: those of the objects, and of
// responses of earlier runs.
func (r *run) seeCached() {
	controller.SeeObjects(r.Secrets, []*object.Object{r.Stored})
	controller.SeeObjects(r.Secrets, r.dependents.byKind...)
	for _, o := range r.memory.Responses {
		if !o.Fresh {
			r.See(&record.Request{}, &record.Response{Handler: o.Response})
		}
	}
}

// finish is the last step. It updates the memory, ends the record, and schedules the next run.
func (r *run) finish(ctx context.Context) record.Outcome {
	if ctx.Err() != nil {
		// The run was interrupted, which is no failure.
		return record.Postponed
	}
	next := r.nextRun()
	if !next.IsZero() {
		r.Queue.AddAfter(r.Item.Key, queue.Cause{Kind: queue.RequeueAfter}, max(next.Sub(r.Now()), time.Millisecond))
	}
	if r.Phase == controller.PhaseManaged {
		r.ReportManualReconcile()
		r.reportDeletion()
	}
	r.recordResult()
	switch {
	case r.failure != nil || r.handlerFailing:
		return record.Failed
	case r.conflicted || len(r.memory.Responses) > 0:
		return record.Postponed
	case r.calls > 0 || r.object.written:
		return record.Synced
	}
	return record.Skipped
}

// nextRun returns when to reconcile the object again; zero if only an event triggers that.
func (r *run) nextRun() time.Time {
	if r.Phase == controller.PhasePaused {
		return time.Time{}
	}
	now := r.Now()
	next := r.nextWrite(now)
	for _, d := range r.memory.daemons {
		next = trigger.Earliest(next, d.nextDaemon())
	}
	if r.Phase != controller.PhaseManaged || !r.StillExists() {
		return next
	}
	if r.object.stale || r.dependents.stale {
		r.observe()
	}
	at, ready := r.pass.NextRun()
	next = trigger.Earliest(next, at)
	// Handlers with calls wait until the object can be written again.
	if ready && !r.conflicted && r.failure == nil {
		return now
	}
	return next
}

func (r *run) nextWrite(now time.Time) time.Time {
	if r.conflicted {
		r.memory.Conflicts++
		next := now.Add(controller.ConflictDelay)
		if r.memory.Conflicts > controller.MaxConflicts {
			r.fail(failure.WithReason(controller.ReasonWriteFailed, fmt.Errorf("write %s: %w",
				r.Stored.Ref(), controller.ErrTooManyConflicts)))
			next = r.memory.writeAttempt.Next
		}
		return next
	}
	r.memory.Conflicts = 0
	next := trigger.Earliest(r.memory.writeAttempt.Next, r.memory.prunedNext)
	if r.memory.stateRemovals.Next.After(now) {
		next = trigger.Earliest(next, r.memory.stateRemovals.Next)
	}
	for _, o := range r.memory.Responses {
		next = trigger.Earliest(next, o.Attempt.Next)
	}
	return next
}

func (r *run) recordResult() {
	failed := r.memory.firstError()
	now := controller.Result{HookFailing: failed != nil, Since: r.Now()}
	now.Failing = now.HookFailing || r.failure != nil || r.memory.writeAttempt.Count > 0
	again := r.failure != nil || r.handlerFailing && failed != nil
	if r.failure != nil {
		failed = r.failed(r.failure)
	}
	if again {
		now.Message, now.Reason, now.Fault, now.Locations = failed.Message, failed.Reason, failed.Fault, r.refused()
	}
	r.Memories.SetResult(r.Item.Key, r.memory, now, again)
	var conflict controller.Conflict
	if r.memory.Throttle.IsActive() {
		conflict.Message = conflictSummary
	}
	r.Memories.EndRun(r.Run, conflict, r.Now())
}

// conflictSummary is the state of an object whose handlers are throttled.
const conflictSummary = "handlers run again and again because the object changes; they are throttled"

func (r *run) refused() []record.Location {
	among := r.Record.Refused()
	for _, h := range r.memory.Handlers {
		if h.Failed != nil {
			among = record.AddLocations(among, h.Failed.Refused...)
		}
	}
	return among
}

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

// errNoObject means that the controller does not have the object.
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

// uncalledError returns the error of a handler that is not called because of it; nil if there is none.
func (d *dryRun) uncalledError(p *trigger.Pass) error {
	for _, h := range p.Handlers {
		called := func(c DryRunCall) bool { return c.Handler == h.Title() }
		if h.Failed != nil && !slices.ContainsFunc(d.calls, called) {
			return errors.New(h.Failed.Message)
		}
	}
	return nil
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
