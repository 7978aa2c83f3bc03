package handle

import (
	"context"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// callHandlers is the step that calls the handlers, one after the other, and writes what each
// wants before it calls the next: a handler that succeeded is recorded, and the next one
// sees what it wrote.
func (r *run) callHandlers(ctx context.Context) error {
	err := r.writePending(ctx)
	for i := range r.program.Handlers {
		if err == nil && r.phase == phaseManaged {
			err = r.callHandler(ctx, i)
		}
	}
	r.updateThrottle()
	if err != nil {
		return err
	}
	return r.writeState(ctx)
}

// callHandler calls one handler for the changes it has not seen, and then for what the
// object is due for.
func (r *run) callHandler(ctx context.Context, i int) error {
	for r.hasEvent(i) {
		m := &r.memory.handlers[i]
		c := r.eventCall(i, m.events[0])
		m.events = m.events[1:]
		if err := r.callAndWrite(ctx, c); err != nil {
			return err
		}
	}
	var due pendingCalls
	r.observation(r.item.Causes).addHandler(&due, i)
	for _, c := range due.calls {
		if err := r.callAndWrite(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// callAndWrite makes one call and writes what came of it.
func (r *run) callAndWrite(ctx context.Context, c call) error {
	o, err := r.makeCall(ctx, c)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		// It is noted in the memory, and the attempt in the record.
		return r.writeState(ctx)
	}
	return r.writeResponse(ctx, o)
}

// hasEvent says whether a handler is to be called for a change it has not seen.
func (r *run) hasEvent(i int) bool {
	return len(r.memory.handlers[i].events) > 0 && !r.throttled()
}

// eventCall is the call for one change. It shows the object as it is, which may be newer.
func (r *run) eventCall(i int, e cache.Event) call {
	return call{handler: i, reason: hook.ReasonEvent, object: r.stored, previous: e.Old, event: e}
}

// takeEvents has each handler of events keep the changes that it has not seen: what a run
// does not get to, the next one does.
func (r *run) takeEvents(events []cache.Event) {
	for i := range r.memory.handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		if !h.handles(hook.ReasonEvent) {
			continue
		}
		if r.phase != phaseManaged {
			m.events = nil
			continue
		}
		for _, e := range events {
			if e.New != nil && r.isExternalChange(e.New) && h.matches(e.Old, e.New) {
				m.events = appendEvent(m.events, e)
			}
		}
		if r.throttled() {
			m.events = mergeEvents(m.events)
		}
	}
}

// isExternalChange says that a state is one of this object that another client brought about.
// The API server may send what we wrote before it answers us.
func (r *run) isExternalChange(state *object.Object) bool {
	return state.UID() == r.stored.UID() && r.program.selects(state) && !slices.Contains(r.memory.ownVersions, state.Version())
}

// makeCall makes a call and notes what came of it: its response is owed until it is
// written. Once the context has ended no handler is called: a failure would not be its
// own.
func (r *run) makeCall(ctx context.Context, c call) (*pendingResponse, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.calls++
	r.countChange(c)
	r.dropSuperseded(c)
	former := r.memory.handlers[c.handler].progress
	response, err := r.invoke(ctx, r.record, r.request(c), &r.program.Handlers[c.handler])
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		r.handlerFailed(c, err)
		return nil, err
	}
	o := &pendingResponse{call: c, response: response, fresh: true, base: r.stored, progressBefore: former}
	r.recordResponse(o)
	return o, nil
}

// invoke calls a handler, for no longer than it may take.
func (c *Controller) invoke(ctx context.Context, rec *record.Record, n *hook.HandlerRequest, h *Handler) (*hook.HandlerResponse, error) {
	if h.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, h.Timeout)
		defer cancel()
		ctx = limited
	}
	started := c.tools.Now()
	response, err := c.handleAndRecover(ctx, n, h)
	if err == nil {
		err = c.program.checkResponse(n, response)
	}
	if rec.Detailed() {
		rec.Called(started, record.Call{Name: h.Name, Reason: n.Reason, Request: recordedRequest(n), Response: record.Response{Handler: response}, Err: err})
	}
	c.tools.Observer.Handled(c.program.Name, h.Name, n.Reason, c.Since(started), err)
	if err == nil {
		c.Log.Debug("handled", "handler", h.Name, "reason", string(n.Reason), "namespace", n.Namespace, "name", n.Name)
	}
	return response, err
}

// recordedRequest is a notice as it is kept: who keeps it need not keep the controller.
func recordedRequest(n *hook.HandlerRequest) record.Request {
	kept := *n
	kept.Reader = nil
	return record.Request{Handler: &kept}
}

// logPanic logs where a handler or a daemon panicked or called runtime.Goexit, if it did.
func (c *Controller) logPanic(h *Handler, n *hook.HandlerRequest, err error) {
	if stack, crashed := failure.PanicStack(err); crashed {
		c.Log.Error("handler crashed", "handler", h.Name, "namespace", n.Namespace, "name", n.Name, "error", failure.OneLine(err), "stack", stack)
	}
}

// handleAndRecover makes a panic of the handler, or a runtime.Goexit, its error.
func (c *Controller) handleAndRecover(ctx context.Context, n *hook.HandlerRequest, h *Handler) (response *hook.HandlerResponse, err error) {
	err = failure.Recover("the handler", func() (err error) {
		response, err = h.Do.Handle(ctx, n)
		return err
	})
	c.logPanic(h, n, err)
	if err == nil && response == nil {
		response = &hook.HandlerResponse{}
	}
	return response, failure.WithSource(failure.Handler, err)
}
