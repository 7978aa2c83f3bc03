package setpoint

import (
	"context"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// Handler is a function that handles the objects of a kind. Each method adds a reason to call
// it and returns the handler. A handler has at least one reason; Setpoint calls it once for
// each state of an object, whatever reasons apply.
type Handler[T any] struct {
	handler *sdk.Handler
	of      *sdk.Handlers
	fn      HandlerFunc[T]
}

// OnCreate calls the handler once for each object, including objects that are older than the
// program and objects that match the filters later.
func (h *Handler[T]) OnCreate() *Handler[T] { return h.on(hook.ReasonCreate) }

// OnUpdate calls the handler when a watched field has changed since it last handled the
// object, also while the program was not running. See Field.
func (h *Handler[T]) OnUpdate() *Handler[T] { return h.on(hook.ReasonUpdate) }

// OnDelete calls the handler while an object is being deleted. A finalizer holds the object
// until the handler succeeds, unless it is Optional.
func (h *Handler[T]) OnDelete() *Handler[T] { return h.on(hook.ReasonDelete) }

// OnResume calls the handler once after the program starts, for each object that it handled
// before.
func (h *Handler[T]) OnResume() *Handler[T] { return h.on(hook.ReasonResume) }

// OnEvent calls the handler for every observed change, including changes of the status, and
// for the deletion of an object, with Call.Gone. Setpoint does not retry it.
func (h *Handler[T]) OnEvent() *Handler[T] { return h.on(hook.ReasonEvent) }

// OnDrift calls the handler when another client changed or deleted an object that the handled
// object owns, also while the program was not running. See Handlers.Owns.
func (h *Handler[T]) OnDrift() *Handler[T] { return h.on(hook.ReasonDrift) }

// OnRelated calls the handler when an object of Watches changes that maps to the handled
// object. A failed call is retried, and a call for another reason that comes first counts as
// well.
func (h *Handler[T]) OnRelated() *Handler[T] { return h.on(hook.ReasonRelated) }

// Every calls the handler at this interval, counted from the creation of the object, also
// after a restart of the program. A call that is due while the handler runs or fails is
// skipped.
func (h *Handler[T]) Every(interval time.Duration) *Handler[T] {
	h.handler.SetInterval(interval)
	return h
}

// Schedule calls the handler on a cron schedule of five fields, such as "30 4 * * mon-fri", or
// @hourly, @daily, @weekly, @monthly or @yearly. The time zone is UTC unless the schedule
// begins with another one, such as "TZ=Europe/Berlin ".
func (h *Handler[T]) Schedule(cron string) *Handler[T] {
	h.handler.SetSchedule(cron)
	return h
}

func (h *Handler[T]) on(reason hook.Reason) *Handler[T] {
	h.handler.AddReason(reason)
	return h
}

func (h *Handler[T]) configure(options []HandlerOption) {
	if h.fn == nil {
		h.handler.AddProblem("the function is nil")
	}
	for _, o := range options {
		o.applyToHandler(h.handler)
	}
}

// call calls the function once.
func (h *Handler[T]) call(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	c, err := newCall(h, n)
	if err != nil {
		return nil, err
	}
	err = c.call.Invoke(ctx, "handler", h.handler.Name, func() error { return h.fn(ctx, c) })
	stepped := c.endsWithStep(err)
	if err != nil && !stepped {
		return nil, err
	}
	response, err := c.buildResponse()
	if err == nil && stepped {
		err = c.addStep(response)
	}
	return response, err
}

// runDaemon runs the function until it returns.
func (h *Handler[T]) runDaemon(ctx context.Context, n *hook.HandlerRequest, live *loop.Live) error {
	c, err := newCall(h, n)
	if err != nil {
		return err
	}
	c.live = live
	if err := c.call.Invoke(ctx, "daemon", h.handler.Name, func() error { return h.fn(ctx, c) }); err != nil {
		return err
	}
	return c.Write()
}
