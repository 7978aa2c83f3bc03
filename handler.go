package setpoint

import (
	"context"
	"errors"
	"reflect"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// HandlerFunc handles objects of type T. Setpoint writes what the function requests
// through the Call after it returns nil, and drops all of it if it returns an error.
// The function must be safe for concurrent use with different objects; Setpoint does
// not call one handler concurrently for one object.
type HandlerFunc[T any] func(ctx context.Context, c *Call[T]) error

// Handler is a function that handles the objects of a kind. Each method adds a reason to call
// it and returns the handler. A handler has at least one reason; Setpoint calls it once for
// each state of an object, whatever reasons apply.
type Handler[T any] struct {
	handler    *sdk.Handler
	controller *sdk.Controller
	fn         HandlerFunc[T]
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
	h.handler.SetPositive("Every", &h.handler.Spec.Every, interval)
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

// runOnce calls the function once.
func (h *Handler[T]) runOnce(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	c, err := newCall[T](h.controller, h.handler.Name, n)
	if err != nil {
		return nil, err
	}
	err = c.call.Invoke(ctx, "handler", h.handler.Name, func() error { return h.fn(ctx, c) })
	stepped := c.step != nil && errors.Is(err, errStepCompleted)
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
func (h *Handler[T]) runDaemon(ctx context.Context, n *hook.HandlerRequest, live trigger.Live) error {
	c, err := newCall[T](h.controller, h.handler.Name, n)
	if err != nil {
		return err
	}
	c.live = live
	if err := c.call.Invoke(ctx, "daemon", h.handler.Name, func() error { return h.fn(ctx, c) }); err != nil {
		return err
	}
	return c.Write()
}

// HandlerOption configures a handler.
type HandlerOption interface{ applyToHandler(*sdk.Handler) }

// CallOption configures a handler or an admission webhook.
type CallOption interface {
	HandlerOption
	ReviewOption
}

// handlerOption lets functions be options, and callOption is a CallOption.
type (
	handlerOption func(*sdk.Handler)
	callOption    struct {
		handlerOption
		reviewOption
	}
)

func (o handlerOption) applyToHandler(h *sdk.Handler) { o(h) }

// Field limits the watched fields of a handler, such as "spec.currency" or
// metadata.labels["example.com/tier"]. The default is the whole object except its status
// and the metadata that the API server sets.
func Field(paths ...string) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.WatchFields(paths...) })
}

// When limits a handler to objects for which the predicate returns true. T is the type of
// the handled objects; old is nil if there is none or it is unknown. The predicate must
// not change the objects, and must be fast.
func When[T any](predicate func(old, now *T) bool) HandlerOption {
	matches := func(old, now *object.Object) bool {
		was, err := sdk.DecodeObject[T](old)
		if err != nil {
			return true // So that the call reports the error.
		}
		is, err := sdk.DecodeObject[T](now)
		return err != nil || predicate(was, is)
	}
	return handlerOption(func(h *sdk.Handler) { h.AddPredicate(reflect.TypeFor[T](), matches) })
}

// Annotations limits a handler to objects whose annotations match a selector, such as
// "example.com/restart,example.com/mode!=off". The syntax is that of label selectors.
func Annotations(selector string) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.FilterAnnotations(selector) })
}

// FieldIs limits a handler to objects in which a field has a value. See Field for paths.
func FieldIs(path string, value any) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.FilterValue(path, value) })
}

// FieldPresent limits a handler to objects that have a field that is not null.
func FieldPresent(path string) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.FilterPresence(path, true) })
}

// FieldAbsent limits a handler to objects that do not have a field, or in which it is
// null.
func FieldAbsent(path string) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.FilterPresence(path, false) })
}

// FieldChanged limits a handler to objects in which a field differs from its old value,
// or the old value is unknown. To be called for each change of a field, use OnUpdate with
// Field: it misses no change.
func FieldChanged(path string) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.FilterChange(path) })
}

// KeepPreviousState sets Call.Old and Call.Changes also for changes made while the
// program was not running. Setpoint stores the watched fields in its record on the object,
// up to 64 kB for all handlers of the program. It does not support Secrets. Old then has the
// watched fields only.
func KeepPreviousState() HandlerOption {
	return handlerOption(func(h *sdk.Handler) {
		h.Spec.KeepPreviousState = true
		h.RequireReason("KeepPreviousState", hook.ReasonUpdate)
	})
}

// Retries is how often Setpoint retries a failed call before the handler gives up until
// the object changes; 0 means never. The default is no limit.
func Retries(n int) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.SetRetries(n) })
}

// RetryTimeout is how long Setpoint retries a failed call before the handler gives up
// until the object changes. The default is no limit.
func RetryTimeout(d time.Duration) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.SetDuration("RetryTimeout", &h.Spec.RetryTimeout, d) })
}

// Timeout limits one call: its context ends then. The default is no limit for a handler,
// and 5 seconds for an admission webhook, which takes whole seconds from 1s to 30s.
func Timeout(d time.Duration) CallOption {
	return callOption{
		func(h *sdk.Handler) { h.SetDuration("Timeout", &h.Spec.Timeout, d) },
		func(w *sdk.Webhook) { w.SetTimeout(d) },
	}
}

// Backoff is the first delay before a retry, which doubles, and the longest one. The
// defaults are 1s and 5m.
func Backoff(first, most time.Duration) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.SetBackoff(first, most) })
}

// StopTimeout is how long the deletion of an object waits for a daemon to return after
// its context was cancelled. The default is 30s. Then Setpoint reports DaemonStuck as an
// event and in the log, and releases the object. If the object only stopped to match, the
// condition Handled has the reason DaemonStuck until the daemon returns, and Setpoint
// starts no other one for the object.
func StopTimeout(d time.Duration) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.SetPositive("StopTimeout", &h.Spec.StopTimeout, d) })
}

// Optional does not hold the deletion of objects for OnDelete: there is no finalizer.
func Optional() HandlerOption {
	return handlerOption(func(h *sdk.Handler) {
		h.Spec.Optional = true
		h.RequireReason("Optional", hook.ReasonDelete)
	})
}

// FormerName keeps the record of a renamed handler: objects that the handler has handled under
// the former name are not handled again.
func FormerName(name string) HandlerOption {
	return handlerOption(func(h *sdk.Handler) { h.AddFormerName(name) })
}

// Idle delays a timer until no watched field has changed for this long.
func Idle(d time.Duration) HandlerOption {
	return handlerOption(func(h *sdk.Handler) {
		h.SetDuration("Idle", &h.Spec.Idle, d)
		h.RequireReason("Idle", hook.ReasonTimer)
	})
}

// Debounce delays an update until no watched field has changed for this long. Several
// changes within that time are one update, and a change that is undone within it is none.
func Debounce(d time.Duration) HandlerOption {
	return handlerOption(func(h *sdk.Handler) {
		h.SetDuration("Debounce", &h.Spec.Debounce, d)
		h.RequireReason("Debounce", hook.ReasonUpdate)
	})
}

// InitialDelay counts Every from when the program first sees the object, or the object begins to
// match, instead of its creation: the first call comes this long after, and the next ones an
// interval after the end of a call. 0 calls at once, also after each start of the program.
func InitialDelay(d time.Duration) HandlerOption {
	return handlerOption(func(h *sdk.Handler) {
		h.SetDuration("InitialDelay", &h.Spec.InitialDelay, d)
		h.Spec.FromFirstSeen = true
	})
}

// Jitter delays the timers of an object by up to this much.
func Jitter(d time.Duration) HandlerOption {
	return handlerOption(func(h *sdk.Handler) {
		h.SetDuration("Jitter", &h.Spec.Jitter, d)
		h.RequireReason("Jitter", hook.ReasonTimer)
	})
}
