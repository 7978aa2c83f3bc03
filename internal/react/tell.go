package react

import (
	"context"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/store"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// serve is the step that calls the handlers, one after the other, and writes what each
// wants before it calls the next: a handler that succeeded is recorded, and the next one
// sees what it wrote.
func (r *run) serve(ctx context.Context) error {
	err := r.writeOwed(ctx)
	for i := range r.program.Handlers {
		if err == nil && r.stance == handling {
			err = r.serveOne(ctx, i)
		}
	}
	r.pace()
	if err != nil {
		return err
	}
	return r.writeRest(ctx)
}

// serveOne calls one handler for the changes it has not seen, and then for what the
// object is due for.
func (r *run) serveOne(ctx context.Context, i int) error {
	for r.hasEvent(i) {
		m := &r.memory.handlers[i]
		c := r.eventCall(i, m.events[0])
		m.events = m.events[1:]
		if err := r.serveCall(ctx, c); err != nil {
			return err
		}
	}
	var due agenda
	r.situation(r.item.Causes).consider(&due, i)
	for _, c := range due.calls {
		if err := r.serveCall(ctx, c); err != nil {
			return err
		}
	}
	return nil
}

// serveCall makes one call and writes what came of it.
func (r *run) serveCall(ctx context.Context, c call) error {
	o, err := r.tellOne(ctx, c)
	switch {
	case ctx.Err() != nil:
		return ctx.Err()
	case err != nil:
		// It is noted in the memory, and the attempt in the record.
		return r.writeRest(ctx)
	}
	return r.writeAnswer(ctx, o)
}

// hasEvent says whether a handler is to be called for a change it has not seen.
func (r *run) hasEvent(i int) bool {
	return len(r.memory.handlers[i].events) > 0 && !r.slowed()
}

// eventCall is the call for one change. It shows the object as it is, which may be newer.
func (r *run) eventCall(i int, e store.Event) call {
	return call{handler: i, reason: hook.ReasonEvent, object: r.stored, old: e.Old, event: e}
}

// takeNews has each handler of events keep the changes that it has not seen: what a run
// does not get to, the next one does.
func (r *run) takeNews(news []store.Event) {
	for i := range r.memory.handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		if !h.on(hook.ReasonEvent) {
			continue
		}
		if r.stance != handling {
			m.events = nil
			continue
		}
		for _, e := range news {
			if e.New != nil && r.isNews(e.New) && h.cares(e.Old, e.New) {
				m.events = addNews(m.events, e)
			}
		}
		if r.slowed() {
			m.events = asOne(m.events)
		}
	}
}

// isNews says that a state is one of this object that another client brought about.
// The API server may send what we wrote before it answers us.
func (r *run) isNews(state *object.Object) bool {
	return state.UID() == r.stored.UID() && r.program.selects(state) && !slices.Contains(r.memory.versions, state.Version())
}

// tellOne makes a call and notes what came of it: its response is owed until it is
// written. Once the context has ended no handler is called: a failure would not be its
// own.
func (r *run) tellOne(ctx context.Context, c call) (*owed, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.told++
	r.count(c)
	r.supersede(c)
	former := r.memory.handlers[c.handler].progress
	answer, err := r.call(ctx, r.account, r.notice(c), &r.program.Handlers[c.handler])
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, err
	case err != nil:
		r.handlerFailed(c, err)
		return nil, err
	}
	o := &owed{call: c, answer: answer, fresh: true, base: r.stored, former: former}
	r.handled(o)
	return o, nil
}

// call calls a handler, for no longer than it may take.
func (c *Controller) call(ctx context.Context, account *trace.Account, n *hook.Notice, h *Handler) (*hook.Answer, error) {
	if h.Timeout > 0 {
		limited, cancel := context.WithTimeout(ctx, h.Timeout)
		defer cancel()
		ctx = limited
	}
	started := c.tools.Now()
	answer, err := c.contain(ctx, n, h)
	if err == nil {
		err = c.program.check(n, answer)
	}
	if account.Whole() {
		account.Asked(started, trace.Ask{What: h.Name, Reason: n.Reason, Question: asked(n), Answer: trace.Answer{Notice: answer}, Err: err})
	}
	c.tools.Observer.Handled(c.program.Name, h.Name, n.Reason, c.since(started), err)
	if err == nil {
		c.log.Debug("handled", "handler", h.Name, "reason", string(n.Reason), "namespace", n.Namespace, "name", n.Name)
	}
	return answer, err
}

// asked is a notice as it is kept: who keeps it need not keep the controller.
func asked(n *hook.Notice) trace.Question {
	kept := *n
	kept.Reader = nil
	return trace.Question{Notice: &kept}
}

// logCrash logs where a handler or a daemon panicked or called runtime.Goexit, if it did.
func (c *Controller) logCrash(h *Handler, n *hook.Notice, err error) {
	if stack, crashed := failure.Crashed(err); crashed {
		c.log.Error("handler crashed", "handler", h.Name, "namespace", n.Namespace, "name", n.Name, "error", failure.OneLine(err), "stack", stack)
	}
}

// contain makes a panic of the handler, or a runtime.Goexit, its error.
func (c *Controller) contain(ctx context.Context, n *hook.Notice, h *Handler) (answer *hook.Answer, err error) {
	err = failure.Contain("the handler", func() (err error) {
		answer, err = h.Do.Handle(ctx, n)
		return err
	})
	c.logCrash(h, n, err)
	if err == nil && answer == nil {
		answer = &hook.Answer{}
	}
	return answer, failure.By(failure.Handler, err)
}
