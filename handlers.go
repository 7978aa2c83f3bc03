package setpoint

import (
	"context"
	"reflect"
	"time"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk"
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
type Handlers[T any] struct{ kind *sdk.Handlers }

// For returns the handlers of a kind of object. T is a struct of k8s.io/api, or is
// named after the kind of a CRD that the app installs. The version is the one that the
// package of T is named after, if it is served, or else the storage version. Any other
// type, including Unstructured, requires the option Kind.
func For[T any](app *App, options ...KindOption) *Handlers[T] {
	kind := sdk.NewHandlers(sdk.Of(app), reflect.TypeFor[T]())
	applyToKind(&kind.Controller, options)
	return &Handlers[T]{kind}
}

// OnCreate calls fn once for each object, including objects that are older than the
// program and objects that match the filters later.
func (h *Handlers[T]) OnCreate(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).AddReason(hook.ReasonCreate)
}

// OnUpdate calls fn when a watched field has changed since the handler last handled the
// object, also while the program was not running. See Field.
func (h *Handlers[T]) OnUpdate(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).AddReason(hook.ReasonUpdate)
}

// OnDelete calls fn while an object is being deleted. A finalizer holds the object until
// fn succeeds, unless the handler is Optional.
func (h *Handlers[T]) OnDelete(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).AddReason(hook.ReasonDelete)
}

// OnResume calls fn once after the program starts, for each object that the handler
// handled before.
func (h *Handlers[T]) OnResume(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).AddReason(hook.ReasonResume)
}

// OnEvent calls fn for every observed change, including changes of the status, and for
// the deletion of an object, with Call.Gone. Setpoint does not retry it.
func (h *Handlers[T]) OnEvent(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).AddReason(hook.ReasonEvent)
}

// OnDrift calls fn when another client changed or deleted an object that the handled
// object owns, also while the program was not running. See Owns.
func (h *Handlers[T]) OnDrift(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).AddReason(hook.ReasonDrift)
}

// OnRelated calls fn when an object of Watches changes that maps to the handled object. A
// failed call is retried, and a call for another reason that comes first counts as well.
func (h *Handlers[T]) OnRelated(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).AddReason(hook.ReasonRelated)
}

// Every calls fn at this interval, counted from the creation of the object, also after a
// restart of the program. A call that is due while the handler runs or fails is skipped.
func (h *Handlers[T]) Every(name string, interval time.Duration, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).SetInterval(interval)
}

// Schedule calls fn on a cron schedule of five fields, such as "30 4 * * mon-fri", or
// @hourly, @daily, @weekly, @monthly or @yearly. The time zone is UTC unless the
// schedule begins with another one, such as "TZ=Europe/Berlin ".
func (h *Handlers[T]) Schedule(name, cron string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).SetSchedule(cron)
}

// Daemon runs fn for each matching object, until the object is being deleted or no
// longer matches, or the program stops: then its context is cancelled. A finalizer holds
// an object that is being deleted until fn returns, at most for the StopTimeout. Call.Write
// writes what fn requests; Call.Changed and Call.Refresh report changes of other clients.
// When fn returns nil, it is done; when it returns an error, Setpoint starts it again
// after a backoff. There are as many concurrent calls as there are objects.
func (h *Handlers[T]) Daemon(name string, fn HandlerFunc[T], options ...HandlerOption) {
	h.register(name, fn, options).IsDaemon = true
}

// Owns declares kinds of objects that the handlers apply and the handled object owns.
// Setpoint watches them, Call.Owned returns them, and OnDrift reports changes of them.
// An object of the kind declares it, such as &corev1.ConfigMap{}.
func (h *Handlers[T]) Owns(objs ...any) { h.kind.Owns(objs...) }

// Applies declares kinds of objects that the handlers apply besides those in Owns.
func (h *Handlers[T]) Applies(objs ...any) { h.kind.Applies(objs...) }

// Deletes declares kinds of objects that the handlers delete besides those in Owns.
func (h *Handlers[T]) Deletes(objs ...any) { h.kind.Deletes(objs...) }

// Evicts declares that the handlers evict pods.
func (h *Handlers[T]) Evicts() { h.kind.Evicts() }

// Reads declares kinds of objects that the handlers read with Call.List.
func (h *Handlers[T]) Reads(objs ...any) { h.kind.Reads(objs...) }

// register returns the handler of a name, with further options, and adds it if it is new.
func (h *Handlers[T]) register(name string, fn HandlerFunc[T], options []HandlerOption) *sdk.Handler {
	found := h.kind.Handler(name, fn)
	if found.Once == nil {
		one := &handler[T]{Handler: found, of: h.kind, fn: fn}
		found.Once, found.Forever = one.call, one.runDaemon
	}
	for _, o := range options {
		o.applyToHandler(found)
	}
	return found
}

// Watches watches related objects, which the handled objects do not own: when one is
// created, changed or deleted, Setpoint calls the handlers of OnRelated for the objects that
// the function returns, with their namespace and name. It also retries their failed calls.
//
// Setpoint calls the function for the object before and after a change, so that the former
// and the new handled objects know. The function must be fast; it may use an Index. If it
// panics, the object has no handled objects, and the panic is logged.
//
// The related kind comes from For, with options such as Labels, and need not have handlers
// of its own. Changes while the program is not running call no handler: register it with
// OnResume, too.
func Watches[T, R any](handlers *Handlers[T], related *Handlers[R], handledBy func(o *R) []types.NamespacedName) {
	if handledBy == nil {
		handlers.kind.App().AddProblem("Watches: the function is nil")
	}
	handlers.kind.Watch(related.kind, func(o *object.Object) ([]types.NamespacedName, error) {
		typed, err := sdk.DecodeObject[R](o)
		if err != nil {
			return nil, err
		}
		return handledBy(typed), nil
	})
}
