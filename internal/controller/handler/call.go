package handler

import (
	"context"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	hookcall "github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/controller"
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
	for _, h := range r.memory.handlers {
		// After a write, the next handler waits for the index, in the next run.
		if err == nil && r.Phase == controller.PhaseManaged && r.gate.isOpen(r.Item.Key) {
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
func (r *run) callHandler(ctx context.Context, h *handlerMemory) error {
	for len(h.events) > 0 && !r.throttled() {
		c := r.eventCall(h, h.events[0])
		h.events = h.events[1:]
		if err := r.callAndWrite(ctx, c); err != nil {
			return err
		}
	}
	var due pendingCalls
	r.addHandler(&due, h)
	for _, c := range due.calls {
		if err := r.callAndWrite(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// callAndWrite makes one call and writes its response.
func (r *run) callAndWrite(ctx context.Context, c call) error {
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
	case err != nil || o.response.NotApplicable:
		// The memory and the record have the failed attempt.
		return r.writeResponse(ctx, nil)
	case o.response.NoSideEffects:
		// The next write has its record.
		r.memory.removePending(o)
		return nil
	}
	return r.writeResponse(ctx, o)
}

// eventCall returns the call for one event. The object in it may be newer than the event.
func (r *run) eventCall(h *handlerMemory, e observedEvent) call {
	return call{handler: h, reason: hook.ReasonEvent, object: r.Stored, watched: h.watched, previous: e.Old, event: e}
}

// takeEvents adds the events to those that each handler has not seen: what this run does not
// reach, the next run does.
func (r *run) takeEvents(events []observedEvent) {
	for _, h := range r.memory.handlers {
		if !h.handles(hook.ReasonEvent) {
			continue
		}
		if r.Phase != controller.PhaseManaged {
			h.events = nil
			continue
		}
		for _, e := range events {
			if e.New != nil && r.isExternalChange(e.New) && h.matches(e.Old, e.New) && r.holds(h, hook.ReasonEvent, e.Old, e.New) {
				h.events = appendEvent(h.events, e)
			}
		}
		if r.throttled() {
			h.events = mergeEvents(h.events)
		}
	}
}

// isExternalChange reports whether another client made this version of the object. The watch
// may deliver our own write before the request returns.
func (r *run) isExternalChange(state *object.Object) bool {
	return state.UID() == r.Stored.UID() && r.program.selects(state) && !slices.Contains(r.memory.ownVersions, state.Version())
}

// makeCall calls a handler and records the result: the response is pending until it is
// written. It makes no call once the context has ended, because the failure would not be the
// handler's.
func (r *run) makeCall(ctx context.Context, c call) (*pendingResponse, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.calls++
	r.countChange(c)
	r.dropSuperseded(c)
	former := c.handler.progress
	c.handler.relatedUnseen = c.handler.relatedUnseen && c.reason == hook.ReasonEvent
	response, err := r.invoke(ctx, r.Run, r.request(c), c.handler.Handler)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		r.handlerFailed(c, c.digest, err)
		return nil, err
	}
	o := &pendingResponse{call: c, response: response, fresh: true, base: r.Stored, progressBefore: former}
	if response.NotApplicable {
		r.decline(c)
		return o, nil
	}
	r.recordResponse(o)
	return o, nil
}

// invoke calls a handler with its timeout.
func (c *Controller) invoke(ctx context.Context, of *controller.Run, n *hook.HandlerRequest, h *Handler) (*hook.HandlerResponse, error) {
	if h.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, h.Timeout)
		defer cancel()
		ctx = limited
	}
	started := c.tools.Now()
	ctx, span := trace.Start(ctx, trace.Internal, "handler", h.title())
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
		err = h.checkResponse(n, response)
	}
	if err == nil {
		err = c.program.checkResponse(n, response)
	}
	err = of.Secrets.Error(err)
	failed := err
	if err == nil {
		failed = response.Err
	}
	span.End(failed)
	if of.Record.Detailed() {
		of.Record.Called(started, record.Call{Name: h.title(), Reason: n.Reason, Request: asked,
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
	h *Handler) (response *hook.HandlerResponse, err error) {
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

func logAttrs(n *hook.HandlerRequest, h *Handler) []any {
	return []any{"handler", h.Name, "namespace", n.Namespace, "name", n.Name}
}
