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

// A call should return when its timeout ends its context. After OverdueAfter its controller is not ready, since the
// call blocks a worker. After StuckAfter the process is unhealthy: only a restart frees the worker.
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

// tracked returns a call that is tracked while it runs.
func tracked[Q, R any](f *InFlight, controller, what string, timeout time.Duration, call func(context.Context, Q) (R, error)) func(
	context.Context, Q) (R, error) {
	return func(ctx context.Context, request Q) (R, error) {
		running := &overdueCall{controller, what, timeout, f.now().Add(timeout)}
		f.calls.Store(running, nil)
		defer f.calls.Delete(running)
		return call(ctx, request)
	}
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

// CheckStuck returns an error when a call ignores its context, so that the process is unhealthy.
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

// timeoutOf returns the timeout of a hook; 0 for none.
func timeoutOf(called any) time.Duration {
	if limited, is := called.(interface{ Timeout() time.Duration }); is {
		return limited.Timeout()
	}
	return 0
}

// WrapProgram tracks the calls of a program's hooks.
func (f *InFlight) WrapProgram(p composite.Program) composite.Program {
	now := f.wrapLogic(p.Name, controller.Logic{Sync: p.Sync, Finalize: p.Finalize, Customize: p.Customize})
	p.Sync, p.Finalize, p.Customize = now.Sync, now.Finalize, now.Customize
	if p.Previous != nil {
		p.Previous = new(f.wrapLogic(p.Name, *p.Previous))
	}
	return p
}

func (f *InFlight) wrapLogic(name string, l controller.Logic) controller.Logic {
	if timeout := timeoutOf(l.Sync); timeout > 0 {
		l.Sync = hook.Func(tracked(f, name, "the sync hook", timeout, l.Sync.Call))
	}
	if timeout := timeoutOf(l.Finalize); timeout > 0 {
		l.Finalize = hook.Func(tracked(f, name, "the finalize hook", timeout, l.Finalize.Call))
	}
	if timeout := timeoutOf(l.Customize); timeout > 0 {
		l.Customize = hook.CustomizerFunc(tracked(f, name, "the customize hook", timeout, l.Customize.Customize))
	}
	return l
}

// WrapHandlers tracks the calls of a program's handlers, except daemons, which never end.
func (f *InFlight) WrapHandlers(p handler.Program) handler.Program {
	p.Handlers = slices.Clone(p.Handlers)
	for i := range p.Handlers {
		h := &p.Handlers[i]
		if timeout := cmp.Or(h.Timeout, timeoutOf(h.Do)); h.Do != nil && timeout > 0 {
			h.Do = hook.HandlerFunc(tracked(f, p.Name, "the handler "+h.Name, timeout, h.Do.Handle))
		}
	}
	return p
}

// WrapReviews tracks the reviews of a program; nil stays nil.
func (f *InFlight) WrapReviews(p *admission.Program) *admission.Program {
	if p == nil {
		return nil
	}
	wrapped := *p
	wrapped.Webhooks = slices.Clone(p.Webhooks)
	for i := range wrapped.Webhooks {
		w := &wrapped.Webhooks[i]
		timeout := cmp.Or(w.Timeout, admission.DefaultTimeout)
		w.Admitter = hook.AdmitterFunc(tracked(f, p.Name, "the review "+w.Name, timeout, w.Admitter.Admit))
	}
	return &wrapped
}
