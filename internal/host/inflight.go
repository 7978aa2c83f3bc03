package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/engine"
	"github.com/setpoint-dev/setpoint/internal/react"
)

// How long a call may go on after its timeout, which ends its context. After the first
// of these it is overdue: it holds a worker, and its controller is not ready. After the
// second the process is not healthy any more: a restart alone frees the worker.
const (
	overdueAfter = 5 * time.Second
	stuckAfter   = time.Minute
)

// inFlight are the calls of hooks and handlers that have a timeout and have not returned.
// Each returns soon after its timeout, unless it ignores its context.
type inFlight struct {
	now func() time.Time

	mu    sync.Mutex
	calls map[*inFlightCall]struct{}
}

// inFlightCall is one of them. It has to be back at the deadline.
type inFlightCall struct {
	controller, what string
	timeout          time.Duration
	deadline         time.Time
}

func (c *inFlightCall) String() string {
	return fmt.Sprintf("%s has not returned, although its timeout of %s is over", c.what, c.timeout)
}

func newInFlight() *inFlight {
	return &inFlight{now: time.Now, calls: map[*inFlightCall]struct{}{}}
}

// begin notes a call until end is called.
func (f *inFlight) begin(controller, what string, timeout time.Duration) (end func()) {
	call := &inFlightCall{controller, what, timeout, f.now().Add(timeout)}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.calls[call] = struct{}{}
	return func() {
		f.mu.Lock()
		defer f.mu.Unlock()
		delete(f.calls, call)
	}
}

// late are the calls that are past their timeout by more than a grace, the oldest
// first.
func (f *inFlight) late(grace time.Duration) []*inFlightCall {
	limit := f.now().Add(-grace)
	f.mu.Lock()
	defer f.mu.Unlock()
	var all []*inFlightCall
	for call := range f.calls {
		if call.deadline.Before(limit) {
			all = append(all, call)
		}
	}
	slices.SortFunc(all, func(a, b *inFlightCall) int {
		return cmp.Or(a.deadline.Compare(b.deadline), cmp.Compare(a.what, b.what))
	})
	return all
}

// overdue counts the overdue calls of a controller, and names the oldest.
func (f *inFlight) overdue(controller string) (count int, oldest string) {
	for _, call := range f.late(overdueAfter) {
		if call.controller != controller {
			continue
		}
		count++
		if oldest == "" {
			oldest = call.String()
		}
	}
	return count, oldest
}

// stuck says that the process is not healthy: a call ignores its context.
func (f *inFlight) stuck() error {
	late := f.late(stuckAfter)
	if len(late) == 0 {
		return nil
	}
	err := errors.New(late[0].controller + ": " + late[0].String())
	if len(late) > 1 {
		err = fmt.Errorf("%w; and %d more calls", err, len(late)-1)
	}
	return err
}

// limited is a hook that says how long a call of it may take.
type limited interface{ Timeout() time.Duration }

// timeoutOf is how long a call may take; 0 where that is not said.
func timeoutOf(called any) time.Duration {
	if l, is := called.(limited); is {
		return l.Timeout()
	}
	return 0
}

// program has the calls of a program's hooks noted.
func (f *inFlight) program(p engine.Program) engine.Program {
	p.Sync, p.Finalize = f.hook(p.Name, "sync", p.Sync), f.hook(p.Name, "finalize", p.Finalize)
	if timeout := timeoutOf(p.Customize); timeout > 0 {
		customize := p.Customize
		p.Customize = hook.CustomizerFunc(func(ctx context.Context, r *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
			defer f.begin(p.Name, "the customize hook", timeout)()
			return customize.Customize(ctx, r)
		})
	}
	return p
}

func (f *inFlight) hook(controller, name string, of hook.Hook) hook.Hook {
	timeout := timeoutOf(of)
	if timeout <= 0 {
		return of
	}
	return hook.Func(func(ctx context.Context, r *hook.Request) (*hook.Response, error) {
		defer f.begin(controller, "the "+name+" hook", timeout)()
		return of.Call(ctx, r)
	})
}

// reaction has the calls of a program's handlers noted. What a daemon does has no end.
func (f *inFlight) reaction(p react.Program) react.Program {
	p.Handlers = slices.Clone(p.Handlers)
	for i := range p.Handlers {
		h := &p.Handlers[i]
		timeout := cmp.Or(h.Timeout, timeoutOf(h.Do))
		if h.Do == nil || timeout <= 0 {
			continue
		}
		do, what := h.Do, "the handler "+h.Name
		h.Do = hook.HandlerFunc(func(ctx context.Context, n *hook.Notice) (*hook.Answer, error) {
			defer f.begin(p.Name, what, timeout)()
			return do.Handle(ctx, n)
		})
	}
	return p
}

// admission has the reviews of a program noted; nil stays nil.
func (f *inFlight) admission(p *admission.Program) *admission.Program {
	if p == nil {
		return nil
	}
	noted := *p
	noted.Webhooks = slices.Clone(p.Webhooks)
	for i := range noted.Webhooks {
		w := &noted.Webhooks[i]
		do, what, timeout := w.Do, "the review "+w.Name, cmp.Or(w.Timeout, admission.DefaultTimeout)
		w.Do = hook.AdmitterFunc(func(ctx context.Context, r *hook.Review) (*hook.Verdict, error) {
			defer f.begin(p.Name, what, timeout)()
			return do.Admit(ctx, r)
		})
	}
	return &noted
}
