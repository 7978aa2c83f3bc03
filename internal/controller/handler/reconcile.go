package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/trace"
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

func (r *run) reconcileObject(ctx context.Context) error {
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
	if err := r.setFinalizer(ctx); err != nil {
		return err
	}
	for _, d := range r.memory.daemons {
		if !r.IsDry() {
			d.updateDaemon(ctx, r)
		}
	}
	if r.Phase == controller.PhasePaused {
		return nil
	}
	if r.Phase == controller.PhaseManaged {
		r.pass.Decide()
	}
	switch err := r.callHandlers(ctx); {
	case errors.Is(err, errGone):
		r.memory.Responses = nil
	case ctx.Err() == nil:
		return err
	}
	return nil
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
		if r.rules.Handles(hook.ReasonDrift) { // Of other owned objects, findApplied asks whose they are.
			r.memory.applied.names = map[string]bool{}
			for name := range slices.Chunk([]byte(r.pass.Recorded[lasthandled.Object].Applied), appliedNameLength) {
				r.memory.applied.names[string(name)] = true
			}
		}
		daemons := lists.Filter(r.memory.Handlers, func(h *trigger.State) bool { return h.Daemon != nil })
		r.memory.daemons = lists.Map(daemons, func(h *trigger.State) *daemonState { return &daemonState{State: h} })
	}
	return r
}

// removalsResetAfter is how long a record must stay until earlier removals do not count any more.
const removalsResetAfter = time.Minute

// observe reads the object and what it owns, at the start of a run and after its writes.
func (r *run) observe() {
	r.object.stale = false
	r.dependents.observe()
	if r.pass.Observe(r.Stored, r.dependents.ownedDigest()) {
		// The record is written at once, but later with each removal.
		losses, now := &r.memory.stateRemovals, r.Now()
		if now.Sub(losses.Since) > removalsResetAfter {
			*losses = trigger.Attempt{}
		} else {
			losses.Next = now.Add(trigger.BackoffAfter(losses.Count, trigger.FirstDelay, trigger.LongestDelay, r.QueueOptions.Random))
		}
		losses.Count, losses.Since = losses.Count+1, now
		r.Log.Info("another client removed the handled state; writing it again", "object", r.Stored.Ref().String())
	}
	// A write may quote the Secrets in the objects, and in responses of earlier runs, before the first call.
	controller.SeeObjects(r.Secrets, append(slices.Clip(r.dependents.byKind), []*object.Object{r.Stored})...)
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
		now.Message, now.Reason, now.Fault, now.Locations = failed.Message, failed.Reason, failed.Fault, r.Record.Refused()
		for _, h := range r.memory.Handlers {
			if h.Failed != nil {
				now.Locations = record.AddLocations(now.Locations, h.Failed.Refused...)
			}
		}
	}
	r.Memories.SetResult(r.Item.Key, r.memory, now, again)
	var conflict controller.Conflict
	if r.memory.Throttle.IsActive() {
		conflict.Message = "handlers run again and again because the object changes; they are throttled"
	}
	r.Memories.EndRun(r.Run, conflict, r.Now())
}

// callHandlers is the step that calls the handlers in order. It writes each response before
// the next call, so that a success is recorded and the next handler sees the result.
func (r *run) callHandlers(ctx context.Context) error {
	err := r.writePending(ctx)
	if err == nil && r.Phase == controller.PhaseManaged {
		err = r.retryPruned(ctx)
	}
	for _, h := range r.memory.Handlers {
		// After a write, the next handler waits for the index, in the next run.
		if err == nil && r.Phase == controller.PhaseManaged && r.gate.IsOpen(r.Item.Key) {
			err = r.callHandler(ctx, h)
		}
	}
	r.updateThrottle()
	if err != nil {
		return err
	}
	return r.writeResponse(ctx, nil)
}

func (r *run) callHandler(ctx context.Context, h *trigger.State) error {
	for len(h.Events) > 0 && !r.pass.Throttled() {
		c := r.pass.EventCall(h, h.Events[0])
		h.Events = h.Events[1:]
		if err := r.callAndWrite(ctx, c); err != nil {
			return err
		}
	}
	for _, c := range r.pass.CallsOf(h) {
		if err := r.callAndWrite(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) callAndWrite(ctx context.Context, c trigger.Call) error {
	if r.dry != nil {
		r.dry.begin(r, c)
		if r.dry.skipCalls {
			return nil
		}
	}
	o, err := r.makeCall(ctx, c)
	if r.dry != nil {
		defer func() { r.dry.complete(c, o, err) }()
	}
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil || o.Response.NotApplicable:
		// The memory and the record have the failed attempt.
		return r.writeResponse(ctx, nil)
	case o.Response.NoSideEffects:
		// The next write has its record.
		r.memory.RemovePending(o)
		return nil
	}
	return r.writeResponse(ctx, o)
}

// makeCall calls a handler and records the result: the response is pending until it is written. It makes no call once
// the context has ended, because the failure would not be the handler's.
func (r *run) makeCall(ctx context.Context, c trigger.Call) (*trigger.Response, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.calls++
	o := r.pass.Begin(c)
	response, err := r.invoke(ctx, r.Run, r.request(c), c.Handler.Handler)
	if err != nil && ctx.Err() != nil {
		return nil, err
	}
	r.pass.Complete(o, response, err)
	if err != nil {
		return nil, err
	}
	r.memory.conditions = r.memory.conditions || !response.NotApplicable && response.Conditions != nil
	return o, nil
}

// matchHandlers is the step that finds out which conditional handlers are applicable.
func (r *run) matchHandlers(ctx context.Context) error {
	for _, h := range r.memory.Handlers {
		if r.dry != nil && r.dry.skipCalls || !r.pass.AsksMatch(h) {
			continue
		}
		state := r.pass.State()
		n := r.newRequest(h.Handler, r.Stored, r.dependents.byKind)
		n.Reason, n.DryRun = hook.ReasonMatch, r.IsDry()
		n.Attempt, n.FirstAttempt = h.MatchAttempt.Count, h.MatchAttempt.Since
		r.pass.CountChange(trigger.Call{Handler: h, Reason: hook.ReasonMatch, Object: r.Stored, Repeated: n.Attempt > 0})
		response, err := r.invoke(ctx, r.Run, n, h.Handler)
		if ctx.Err() != nil {
			return ctx.Err()
		}
		r.pass.Matched(h, state, err == nil && !response.NotApplicable, err)
	}
	return nil
}

// request returns the request of a call, without copying an object.
func (r *run) request(c trigger.Call) *hook.HandlerRequest {
	n := r.newRequest(c.Handler.Handler, c.Object, r.dependents.byKind)
	n.Since = c.Handler.WatchedSince
	n.Reason, n.DryRun, n.Event = c.Reason, r.IsDry(), c.Event.Kind
	if n.Attempt = c.Attempt; n.Attempt > 0 {
		n.FirstAttempt = c.FirstAttempt
	}
	if e := c.Handler.Entry(); e.HasProgress(c.Reason) {
		n.Progress = json.RawMessage(e.Progress)
	}
	if c.Previous != nil {
		n.PreviousState = c.Previous.JSON()
		n.Changes = c.Handler.Changes(c.Previous, cmp.Or(c.Event.New, c.Object))
	}
	return n
}

func (c *Controller) invoke(ctx context.Context, of *controller.Run, n *hook.HandlerRequest,
	h *trigger.Handler) (*hook.HandlerResponse, error) {
	if h.Timeout > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, h.Timeout)
		defer cancel()
	}
	started := c.Now()
	ctx, span := trace.Start(ctx, trace.Internal, "handler", h.Title())
	span.Set(trace.AttrReason, string(n.Reason))
	ctx, output := of.WithOutput(ctx)
	asked := recordedRequest(n)
	n.Reader = reader{c, n.Namespace, of.Secrets}
	of.See(&asked, &record.Response{})
	var response *hook.HandlerResponse
	err := c.CallUserCode("the handler", failure.Handler, logAttrs(n, h), of.Secrets, func() (err error) {
		response, err = h.Do.Handle(ctx, n) // It may be a Go function.
		return err
	})
	if err == nil && response == nil {
		response = &hook.HandlerResponse{}
	}
	if response != nil {
		response = withWholeNumbers(response)
		response.Err = of.Secrets.Error(response.Err)
		of.See(&record.Request{}, &record.Response{Handler: response})
	}
	if err == nil {
		err = cmp.Or(permit.CheckResponse(h, n, response), c.permissions.CheckResponse(n, response))
	}
	err = of.Secrets.Error(err)
	failed := err
	if err == nil {
		failed = response.Err
	}
	span.End(failed)
	if of.Record.Detailed() {
		of.Record.Called(started, record.Call{Name: h.Title(), Reason: string(n.Reason), Sent: asked,
			Received: record.Response{Handler: response}, Err: failed, Printed: output})
	}
	c.Observer.Handled(c.program.Name, h.Name, n.Reason, c.Since(started), failed)
	if failed == nil {
		c.Log.Debug("handled", "handler", h.Name, "reason", string(n.Reason), "namespace", n.Namespace, "name", n.Name)
	}
	return response, err
}

func (d *dryRun) begin(r *run, c trigger.Call) {
	f := DryRunCall{Handler: c.Handler.Title(), Reason: c.Reason, Since: r.pass.PendingSince(c), Attempt: c.Attempt,
		Changes: r.request(c).Changes}
	if c.Reason == hook.ReasonUpdate {
		f.Debounce = c.Handler.Debounce
	}
	d.calls = append(d.calls, f)
}

// complete adds to the latest call how it ended, and what was written since it began.
func (d *dryRun) complete(c trigger.Call, o *trigger.Response, err error) {
	f := &d.calls[len(d.calls)-1]
	if f.Err = cmp.Or(d.notApplied, err); o != nil {
		f.Response, f.Err = o.Response, cmp.Or(f.Err, o.Response.Err)
	}
	f.GaveUp = f.Err != nil && c.Handler.Failed != nil && c.Handler.Failed.Reason == trigger.ReasonGaveUp
	f.Writes, d.Plan, d.notApplied = slices.Concat(d.Plan.Stages...), plan.Plan{}, nil
}
