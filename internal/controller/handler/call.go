package handler

import (
	"context"
	"errors"
	"slices"
	"sync"

	"github.com/setpoint-dev/setpoint/hook"
	hookcall "github.com/setpoint-dev/setpoint/internal/call"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
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
func (r *run) callHandler(ctx context.Context, h *state) error {
	for len(h.events) > 0 && !r.pass.throttled() {
		c := r.pass.eventCall(h, h.events[0])
		h.events = h.events[1:]
		if err := r.callAndWrite(ctx, c); err != nil {
			return err
		}
	}
	for _, c := range r.pass.callsOf(h) {
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

// makeCall calls a handler and records the result: the response is pending until it is
// written. It makes no call once the context has ended, because the failure would not be the
// handler's.
func (r *run) makeCall(ctx context.Context, c call) (*pendingResponse, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.calls++
	r.pass.countChange(c)
	r.pass.dropSuperseded(c)
	former := c.handler.progress
	c.handler.relatedUnseen = c.handler.relatedUnseen && c.reason == hook.ReasonEvent
	response, err := r.invoke(ctx, r.Run, r.request(c), c.handler.Handler)
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		r.pass.handlerFailed(c, c.digest, err)
		return nil, err
	}
	o := &pendingResponse{call: c, response: response, fresh: true, base: r.Stored, progressBefore: former}
	if response.NotApplicable {
		r.pass.decline(c)
		return o, nil
	}
	r.pass.recordResponse(o)
	if response.Conditions != nil {
		r.memory.conditions = true
	}
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
		err = checkResponse(h, n, response)
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

// callGate holds back the reconciles of objects until the indexes of the process are complete
// and have the latest change of the object.
type callGate struct {
	controller *Controller

	mu sync.Mutex
	// unsent counts the changes that are not in the index yet. waiting are the causes of the
	// reconciles that are held back.
	unsent  map[queue.Key]int
	waiting map[queue.Key]queue.Causes
}

func newCallGate(c *Controller) *callGate {
	return &callGate{controller: c, unsent: map[queue.Key]int{}, waiting: map[queue.Key]queue.Causes{}}
}

// holds reports whether a reconcile has to wait. It is queued again when it may go on. Objects
// that the controller only releases do not wait.
func (g *callGate) holds(item queue.Item) bool {
	if g == nil {
		return false
	}
	if o := g.controller.Get(item.Key); o != nil && g.controller.PhaseOf(o) != controller.PhaseManaged {
		return false
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.controller.backend.MayCall() && g.unsent[item.Key] == 0 {
		return false
	}
	causes := queue.NewCauses(g.waiting[item.Key].List()...)
	causes.Merge(item.Causes)
	g.waiting[item.Key] = causes
	return true
}

// isOpen reports whether calls about an object may be made.
func (g *callGate) isOpen(key queue.Key) bool {
	if g == nil {
		return true
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.unsent[key] == 0
}

// close records a change that is not in the index yet.
func (g *callGate) close(key queue.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.unsent[key]++
}

// open records that changes are in the index, and queues what waited for them.
func (g *callGate) open(keys []queue.Key) {
	g.mu.Lock()
	defer g.mu.Unlock()
	for _, key := range keys {
		g.unsent[key]--
		if g.unsent[key] > 0 {
			continue
		}
		delete(g.unsent, key)
		if causes, waits := g.waiting[key]; waits {
			delete(g.waiting, key)
			g.queue(key, causes)
		}
	}
}

// release queues everything that waits; what still has to wait comes back.
func (g *callGate) release() {
	g.mu.Lock()
	defer g.mu.Unlock()
	for key, causes := range g.waiting {
		g.queue(key, causes)
	}
	clear(g.waiting)
}

// reset drops everything, at the begin of a leadership.
func (g *callGate) reset() {
	if g == nil {
		return
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	clear(g.waiting)
	clear(g.unsent)
}

// isHeld reports whether an object waits.
func (g *callGate) isHeld(key queue.Key) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	_, held := g.waiting[key]
	return held
}

// len returns the number of objects that wait.
func (g *callGate) len() int {
	if g == nil {
		return 0
	}
	g.mu.Lock()
	defer g.mu.Unlock()
	return len(g.waiting)
}

func (g *callGate) queue(key queue.Key, causes queue.Causes) {
	for _, cause := range causes.List() {
		g.controller.Queue.Add(key, cause)
	}
}

// recordError records the error of a handler and sends an event. The state is nil if the error is about an event.
func (r *run) recordError(h *state, err error) {
	err = r.Secrets.Error(err)
	if h != nil {
		h.failed = &handlerFailure{controller.ReasonOf(err), failure.OneLine(err), record.FaultOf(err), r.Record.Refused()}
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
		r.memory.writeAttempt.failed(r.tools.Now(), r.tools.Queue.Random)
		r.reportFailure(err)
	}
}
