// Package calls watches the calls of hooks: which are overdue, which processes cannot be reached, and which code is still
// being compiled.
package calls

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
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
)

// A call should return when its timeout ends its context. After OverdueAfter its controller
// is not ready, since the call blocks a worker. After StuckAfter the process is unhealthy:
// only a restart frees the worker.
const (
	OverdueAfter = 5 * time.Second
	StuckAfter   = time.Minute
)

// InFlight tracks calls of hooks and handlers that have a timeout and have not returned.
type InFlight struct {
	now func() time.Time
	// calls are *overdueCall.
	calls sync.Map
}

// overdueCall is a call that should return by its deadline.
type overdueCall struct {
	controller, name string
	timeout          time.Duration
	deadline         time.Time
}

func (c *overdueCall) String() string {
	return fmt.Sprintf("%s has not returned after its timeout of %s", c.name, c.timeout)
}

// NewInFlight returns an InFlight without calls.
func NewInFlight() *InFlight {
	return &InFlight{now: time.Now}
}

// track tracks a call until end is called.
func (f *InFlight) track(controller, what string, timeout time.Duration) (end func()) {
	call := &overdueCall{controller, what, timeout, f.now().Add(timeout)}
	f.calls.Store(call, nil)
	return func() { f.calls.Delete(call) }
}

// pastTimeout returns the calls that exceed their timeout by more than grace, oldest first.
func (f *InFlight) pastTimeout(grace time.Duration) []*overdueCall {
	limit := f.now().Add(-grace)
	var all []*overdueCall
	for key := range f.calls.Range {
		if call := key.(*overdueCall); call.deadline.Before(limit) { //nolint:forcetypeassert // Nothing else is stored.
			all = append(all, call)
		}
	}
	slices.SortFunc(all, func(a, b *overdueCall) int {
		return cmp.Or(a.deadline.Compare(b.deadline), cmp.Compare(a.name, b.name))
	})
	return all
}

// Overdue counts the overdue calls of a controller and describes the oldest.
func (f *InFlight) Overdue(controller string) (count int, oldest string) {
	for _, call := range f.pastTimeout(OverdueAfter) {
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

// CheckStuck returns an error when a call ignores its context, so that the process is
// unhealthy.
func (f *InFlight) CheckStuck() error {
	late := f.pastTimeout(StuckAfter)
	if len(late) == 0 {
		return nil
	}
	err := errors.New(late[0].controller + ": " + late[0].String())
	if len(late) > 1 {
		err = fmt.Errorf("%w; and %d more calls", err, len(late)-1)
	}
	return err
}

// timeoutLimited is a hook with a timeout.
type timeoutLimited interface{ Timeout() time.Duration }

// timeoutOf returns the timeout of a hook; 0 for none.
func timeoutOf(called any) time.Duration {
	if l, is := called.(timeoutLimited); is {
		return l.Timeout()
	}
	return 0
}

// WrapProgram tracks the calls of a program's hooks.
func (f *InFlight) WrapProgram(p composite.Program) composite.Program {
	now := f.wrapLogic(p.Name, controller.Logic{Sync: p.Sync, Finalize: p.Finalize, Customize: p.Customize})
	p.Sync, p.Finalize, p.Customize = now.Sync, now.Finalize, now.Customize
	if p.Former != nil {
		p.Former = new(f.wrapLogic(p.Name, *p.Former))
	}
	return p
}

func (f *InFlight) wrapLogic(name string, l controller.Logic) controller.Logic {
	l.Sync, l.Finalize = f.wrapHook(name, "sync", l.Sync), f.wrapHook(name, "finalize", l.Finalize)
	if timeout := timeoutOf(l.Customize); timeout > 0 {
		customize := l.Customize
		l.Customize = hook.CustomizerFunc(func(ctx context.Context, r *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
			defer f.track(name, "the customize hook", timeout)()
			return customize.Customize(ctx, r)
		})
	}
	return l
}

func (f *InFlight) wrapHook(controller, name string, of hook.Hook) hook.Hook {
	timeout := timeoutOf(of)
	if timeout <= 0 {
		return of
	}
	return hook.Func(func(ctx context.Context, r *hook.Request) (*hook.Response, error) {
		defer f.track(controller, "the "+name+" hook", timeout)()
		return of.Call(ctx, r)
	})
}

// WrapHandlers tracks the calls of a program's handlers, except daemons, which never end.
func (f *InFlight) WrapHandlers(p handler.Program) handler.Program {
	p.Handlers = slices.Clone(p.Handlers)
	for i := range p.Handlers {
		h := &p.Handlers[i]
		timeout := cmp.Or(h.Timeout, timeoutOf(h.Do))
		if h.Do == nil || timeout <= 0 {
			continue
		}
		do, what := h.Do, "the handler "+h.Name
		h.Do = hook.HandlerFunc(func(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
			defer f.track(p.Name, what, timeout)()
			return do.Handle(ctx, n)
		})
	}
	return p
}

// WrapReviews tracks the reviews of a program; nil stays nil.
func (f *InFlight) WrapReviews(p *admission.Program) *admission.Program {
	if p == nil {
		return nil
	}
	noted := *p
	noted.Webhooks = slices.Clone(p.Webhooks)
	for i := range noted.Webhooks {
		w := &noted.Webhooks[i]
		do, what, timeout := w.Admitter, "the review "+w.Name, cmp.Or(w.Timeout, admission.DefaultTimeout)
		w.Admitter = hook.AdmitterFunc(func(ctx context.Context, r *hook.ReviewRequest) (*hook.ReviewResponse, error) {
			defer f.track(p.Name, what, timeout)()
			return do.Admit(ctx, r)
		})
	}
	return &noted
}
