package setpoint

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/schedule"
)

// HandlerFunc handles objects of type T. Setpoint writes what the function requests
// through the Call after it returns nil, and drops all of it if it returns an error.
// The function must be safe for concurrent use with different objects; Setpoint does
// not call one handler concurrently for one object.
type HandlerFunc[T any] func(ctx context.Context, c *Call[T]) error

// Handlers are the handlers of one kind of object, called in the order of their
// registration, and its admission webhooks: see Mutate and Validate. A kind that has
// only admission webhooks is not watched.
//
// Several registrations with one name are one handler with several reasons, which is
// called once for each state of an object. Options of one registration apply to all.
// Objects record what a handler has handled under its name: a renamed handler handles
// all objects again, unless it has FormerName.
type Handlers[T any] struct {
	c        controller
	handlers []*handler[T]
	reviews  []*review[T]
	memories *memories
}

// For returns the handlers of a kind of object. T is a struct of k8s.io/api, or is
// named after the kind of a CRD that the app installs. The version is the one that the
// package of T is named after, if it is served, or else the storage version. Any other
// type, including Unstructured, requires the option Kind.
func For[T any](app *App, options ...KindOption) *Handlers[T] {
	h := &Handlers[T]{memories: newMemories()}
	h.c.register(app, reflect.TypeFor[T](), options, h)
	return h
}

// OnCreate calls fn once for each object, including objects that are older than the
// program and objects that match the filters later.
func (h *Handlers[T]) OnCreate(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).addReason(hook.ReasonCreate)
}

// OnUpdate calls fn when a watched field has changed since the handler last handled the
// object, also while the program was not running. See Field.
func (h *Handlers[T]) OnUpdate(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).addReason(hook.ReasonUpdate)
}

// OnDelete calls fn while an object is being deleted. A finalizer holds the object until
// fn succeeds, unless the handler is Optional.
func (h *Handlers[T]) OnDelete(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).addReason(hook.ReasonDelete)
}

// OnResume calls fn once after the program starts, for each object that the handler
// handled before.
func (h *Handlers[T]) OnResume(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).addReason(hook.ReasonResume)
}

// OnEvent calls fn for every observed change, including changes of the status, and for
// the deletion of an object, with Call.Gone. Setpoint does not retry it.
func (h *Handlers[T]) OnEvent(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).addReason(hook.ReasonEvent)
}

// OnDrift calls fn when another client changed or deleted an object that the handled
// object owns, also while the program was not running. See Owns.
func (h *Handlers[T]) OnDrift(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).addReason(hook.ReasonDrift)
}

// OnRelated calls fn when an object of Watches changes that maps to the handled object. A
// failed call is retried, and a call for another reason that comes first counts as well.
func (h *Handlers[T]) OnRelated(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).addReason(hook.ReasonRelated)
}

// Every calls fn at this interval, counted from the creation of the object, also after a
// restart of the program. A call that is due while the handler runs or fails is skipped.
func (h *Handlers[T]) Every(name string, interval time.Duration, fn HandlerFunc[T], options ...HandlerOption) {
	s := h.register(name, fn, options)
	if interval <= 0 {
		s.addProblem("Every(%s): must be greater than zero", interval)
	}
	setOnce(s, "Every", &s.spec.Every, interval)
}

// Schedule calls fn on a cron schedule of five fields, such as "30 4 * * mon-fri", or
// @hourly, @daily, @weekly, @monthly or @yearly. The time zone is UTC unless the
// schedule begins with another one, such as "TZ=Europe/Berlin ".
func (h *Handlers[T]) Schedule(name, cron string, fn HandlerFunc[T], options ...HandlerOption) {
	s := h.register(name, fn, options)
	parsed, err := schedule.Parse(cron)
	if err != nil {
		s.addProblem("Schedule: %w", err)
	}
	s.spec.Schedule = parsed
}

// Daemon runs fn for each matching object, until the object is being deleted or no
// longer matches, or the program stops: then its context is cancelled. A finalizer holds
// an object that is being deleted until fn returns, at most for the StopTimeout. Call.Write
// writes what fn requests; Call.Changed and Call.Refresh report changes of other clients.
// When fn returns nil, it is done; when it returns an error, Setpoint starts it again
// after a backoff. There are as many concurrent calls as there are objects.
func (h *Handlers[T]) Daemon(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.handler(name, fn, options).daemon = true
}

// Owns declares kinds of objects that the handlers apply and the handled object owns.
// Setpoint watches them, Call.Owned returns them, and OnDrift reports changes of them.
// An object of the kind declares it, such as &corev1.ConfigMap{}.
func (h *Handlers[T]) Owns(objs ...any) { h.c.declare("Owns", &h.c.owns, objs) }

// Applies declares kinds of objects that the handlers apply besides those in Owns.
func (h *Handlers[T]) Applies(objs ...any) { h.c.declare("Applies", &h.c.applies, objs) }

// Deletes declares kinds of objects that the handlers delete besides those in Owns.
func (h *Handlers[T]) Deletes(objs ...any) { h.c.declare("Deletes", &h.c.deletes, objs) }

// Evicts declares that the handlers evict pods.
func (h *Handlers[T]) Evicts() { h.c.evicts = true }

// Reads declares kinds of objects that the handlers read with Call.List.
func (h *Handlers[T]) Reads(objs ...any) { h.c.declare("Reads", &h.c.reads, objs) }

func (h *Handlers[T]) register(name string, fn HandlerFunc[T], options []HandlerOption) *handlerSettings {
	return h.handler(name, fn, options).handlerSettings
}

// handler returns the handler of a name, and adds it if it is new.
func (h *Handlers[T]) handler(name string, fn HandlerFunc[T], options []HandlerOption) *handler[T] {
	i := slices.IndexFunc(h.handlers, func(one *handler[T]) bool { return one.name == name })
	if i < 0 {
		i = len(h.handlers)
		h.handlers = append(h.handlers, &handler[T]{handlerSettings: newHandlerSettings(name), handlers: h, fn: fn})
	}
	found := h.handlers[i]
	if fn == nil {
		found.addProblem("the function is nil")
	}
	// Functions are not comparable; the pointers detect two functions of one name.
	if reflect.ValueOf(found.fn).Pointer() != reflect.ValueOf(fn).Pointer() {
		found.addProblem("another function is registered under this name")
	}
	for _, o := range options {
		o.applyToHandler(found.handlerSettings)
	}
	return found
}

// validateName checks the name of a handler or an admission webhook.
func validateName(name string) error {
	if len(validation.IsDNS1123Label(name)) > 0 {
		return errors.New("the name must be lower-case letters, digits and dashes, at most 63")
	}
	return nil
}

func (h *Handlers[T]) stateless() bool { return len(h.handlers) == 0 }

func (h *Handlers[T]) checkFunctions() (problems []error) {
	if len(h.handlers)+len(h.c.indexes)+len(h.reviews) == 0 && !h.c.isRelated {
		problems = append(problems, fmt.Errorf("%s: register a handler, an admission webhook or an index", h.c.name()))
	}
	for _, one := range h.handlers {
		problems = append(problems, one.check(&h.c)...)
	}
	return append(problems, h.checkReviews()...)
}

func (h *Handlers[T]) functions() []namedFunction {
	var all []namedFunction
	for _, one := range h.handlers {
		if !one.daemon {
			all = append(all, namedFunction{one.name, one})
		}
	}
	for _, one := range h.reviews {
		all = append(all, namedFunction{one.name, one})
	}
	return all
}
