package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

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
	if r.dry != nil && !r.planCall(c) {
		return nil
	}
	o, err := r.makeCall(ctx, c)
	if r.dry != nil {
		defer func() { r.dry.ended(c, o, err) }()
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

func (r *run) matchHandler(ctx context.Context, h *trigger.State) {
	state := r.pass.State()
	n := r.newRequest(h.Handler, r.Stored, r.dependents.byKind)
	n.Reason, n.DryRun = hook.ReasonMatch, r.IsDry()
	n.Attempt, n.FirstAttempt = h.MatchAttempt.Count, h.MatchAttempt.Since
	r.pass.CountChange(trigger.Call{Handler: h, Reason: hook.ReasonMatch, Object: r.Stored, Repeated: n.Attempt > 0})
	response, err := r.invoke(ctx, r.Run, n, h.Handler)
	if err == nil || ctx.Err() == nil {
		r.pass.Matched(h, state, err == nil && !response.NotApplicable, err)
	}
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

// planCall adds a call to the result, and reports whether to make it.
func (r *run) planCall(c trigger.Call) bool {
	f := DryRunCall{Handler: c.Handler.Title(), Reason: c.Reason, Since: r.pass.PendingSince(c), Attempt: c.Attempt,
		Changes: r.request(c).Changes}
	if c.Reason == hook.ReasonUpdate {
		f.Debounce = c.Handler.Debounce
	}
	r.dry.calls = append(r.dry.calls, f)
	return !r.dry.skipCalls
}

// invoke calls a handler with its timeout.
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

// recordedRequest returns a request in the form that records keep. It must not reference the
// controller, which would keep it in memory.
func recordedRequest(n *hook.HandlerRequest) record.Request {
	kept := *n
	kept.Reader = nil
	return record.Request{Handler: &kept}
}

// withWholeNumbers returns a response whose whole numbers are integers.
func withWholeNumbers(response *hook.HandlerResponse) *hook.HandlerResponse {
	whole := *response
	whole.Patch, whole.Status = object.WholeNumbers(whole.Patch), object.WholeNumbers(whole.Status)
	whole.Apply = slices.Clone(whole.Apply)
	for i := range whole.Apply {
		whole.Apply[i].Object = object.WholeNumbers(whole.Apply[i].Object)
	}
	return &whole
}

func logAttrs(n *hook.HandlerRequest, h *trigger.Handler) []any {
	return []any{"handler", h.Name, "namespace", n.Namespace, "name", n.Name}
}
