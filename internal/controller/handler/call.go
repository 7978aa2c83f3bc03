package handler

import (
	"context"
	"errors"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	hookcall "github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/handler/permit"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
	"github.com/setpoint-dev/setpoint/internal/redact"
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

// callHandler calls one handler for the events it has not seen, and then for what is pending.
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

// callAndWrite makes one call and writes its response.
func (r *run) callAndWrite(ctx context.Context, c trigger.Call) error {
	if r.dry != nil && !r.planCall(c) {
		return nil
	}
	o, err := r.makeCall(ctx, c)
	if r.dry != nil {
		r.dry.responded(c, o, err)
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

// makeCall calls a handler and records the result: the response is pending until it is
// written. It makes no call once the context has ended, because the failure would not be the
// handler's.
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

// invoke calls a handler with its timeout.
func (c *Controller) invoke(ctx context.Context, of *controller.Run, n *hook.HandlerRequest, h *trigger.Handler) (*hook.HandlerResponse,
	error) {
	if h.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, h.Timeout)
		defer cancel()
		ctx = limited
	}
	started := c.tools.Now()
	ctx, span := trace.Start(ctx, trace.Internal, "handler", h.Title())
	span.Set(trace.AttrReason, string(n.Reason))
	var output *hookcall.Output
	if of.Record.Detailed() {
		ctx, output = hookcall.WithOutput(ctx)
	}
	asked := recordedRequest(n)
	n.Reader = reader{c, n.Namespace, of.Secrets}
	of.See(&asked, &record.Response{})
	response, err := c.handleAndRecover(ctx, of.Secrets, n, h)
	if response != nil {
		copied := *response
		copied.Err, response = of.Secrets.Error(response.Err), &copied
		of.See(&record.Request{}, &record.Response{Handler: response})
	}
	if err == nil {
		err = permit.CheckResponse(h, n, response)
	}
	if err == nil {
		err = c.permissions.CheckResponse(n, response)
	}
	err = of.Secrets.Error(err)
	failed := err
	if err == nil {
		failed = response.Err
	}
	span.End(failed)
	if of.Record.Detailed() {
		of.Record.Called(started, record.Call{Name: h.Title(), Reason: n.Reason, Request: asked,
			Response: record.Response{Handler: response}, Err: failed, Output: output})
	}
	c.tools.Observer.Handled(c.program.Name, h.Name, n.Reason, c.Since(started), failed)
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

// handleAndRecover calls a handler, which may be a Go function.
func (c *Controller) handleAndRecover(ctx context.Context, values *redact.Values, n *hook.HandlerRequest,
	h *trigger.Handler) (response *hook.HandlerResponse, err error) {
	err = c.CallUserCode("the handler", failure.Handler, logAttrs(n, h), values, func() (err error) {
		response, err = h.Do.Handle(ctx, n)
		return err
	})
	if err == nil && response == nil {
		response = &hook.HandlerResponse{}
	}
	return withWholeNumbers(response), err
}

// withWholeNumbers returns a response whose whole numbers are integers.
func withWholeNumbers(response *hook.HandlerResponse) *hook.HandlerResponse {
	if response == nil {
		return nil
	}
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

// recordError records the error of a handler and sends an event. The state is nil if the error is about an event.
func (r *run) recordError(h *trigger.State, err error) {
	err = r.Secrets.Error(err)
	if h != nil {
		h.Failed = &trigger.Failure{
			Reason: controller.ReasonOf(err), Message: failure.OneLine(err), Fault: record.FaultOf(err), Refused: r.Record.Refused(),
		}
	}
	r.Record.Failed(err)
	r.handlerFailing = true
	r.reportFailure(err)
}

// fail records a failure of the run as a whole, which is retried with backoff. A conflict is
// no failure.
func (r *run) fail(err error) {
	err = r.Secrets.Error(err)
	switch {
	case errors.Is(err, controller.ErrConflict):
		r.conflicted = true
		r.Record.Failed(err)
	case err != nil:
		r.failure = err
		r.Record.Failed(err)
		r.memory.writeAttempt.Failed(r.tools.Now(), r.tools.Queue.Random)
		r.reportFailure(err)
	}
}
