package react

import (
	"context"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// tell is the step that calls the handlers.
func (r *run) tell(ctx context.Context) {
	for _, c := range r.ahead() {
		_, _ = r.tellOne(ctx, c) // What came of it is in the memory.
	}
}

// ahead are the calls to make, in the order of the program: each handler is told of
// what happened, then of what the object is due for.
func (r *run) ahead() []call {
	var calls []call
	due := r.agenda.calls
	for i := range r.program.Handlers {
		calls = append(calls, r.happened(i)...)
		if len(due) > 0 && due[0].handler == i {
			calls, due = append(calls, due[0]), due[1:]
		}
	}
	return calls
}

// happened are the calls for the changes that a handler is told of one by one.
func (r *run) happened(i int) []call {
	h := &r.program.Handlers[i]
	if !h.on(hook.ReasonEvent) {
		return nil
	}
	var calls []call
	for _, e := range r.news {
		if e.New != nil && r.isNews(e.New) && h.cares(e.Old, e.New) {
			calls = append(calls, call{handler: i, reason: hook.ReasonEvent, object: e.New, old: e.Old})
		}
	}
	return calls
}

// isNews says that a state is one of this object that somebody else brought about.
// The API server may send what we wrote before it answers us.
func (r *run) isNews(state *object.Object) bool {
	return state.UID() == r.stored.UID() && r.program.selects(state) && !slices.Contains(r.memory.versions, state.Version())
}

// tellOne makes a call and notes what came of it. Once the context has ended
// nobody is called: a failure would not be the handler's.
func (r *run) tellOne(ctx context.Context, c call) (*hook.Answer, error) {
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	r.told++
	r.supersede(c)
	answer, err := r.call(ctx, r.account, r.notice(c), &r.program.Handlers[c.handler])
	switch {
	case err != nil && ctx.Err() != nil:
	case err != nil:
		r.handlerFailed(c, err)
	default:
		r.handled(c, answer)
	}
	return answer, err
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
	if hook.Unreachable(err) {
		c.memories.missed(h.Name)
	} else if c.memories.answered(h.Name) {
		c.RetryNow()
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
