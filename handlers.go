package setpoint

import (
	"reflect"

	"k8s.io/apimachinery/pkg/types"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/sdk"
)

// Handlers are the handlers of one kind of object, called in the order in which Handle and
// Daemon add them, and its admission webhooks: see Mutate and Validate. A kind that has only
// admission webhooks is not watched.
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

// Handle adds a handler, which Setpoint calls for the reasons that its methods add:
//
//	rates.Handle("publish", publish, setpoint.Field("spec.currency")).OnCreate().OnUpdate().Every(time.Hour)
//
// Objects record what a handler has handled under its name: a renamed handler handles all
// objects again, unless it has FormerName.
func (h *Handlers[T]) Handle(name string, fn HandlerFunc[T], options ...HandlerOption) *Handler[T] {
	added := &Handler[T]{h.kind.AddHandler(name), &h.kind.Controller, fn}
	added.handler.Once = added.runOnce
	added.configure(options)
	return added
}

// Daemon runs fn for each matching object, until the object is being deleted or no
// longer matches, or the program stops: then its context is cancelled. A finalizer holds
// an object that is being deleted until fn returns, at most for the StopTimeout. Call.Write
// writes what fn requests; Call.Changed and Call.Refresh report changes of other clients.
// When fn returns nil, it is done; when it returns an error, Setpoint starts it again
// after a backoff. There are as many concurrent calls as there are objects.
func (h *Handlers[T]) Daemon(name string, fn HandlerFunc[T], options ...HandlerOption) {
	added := &Handler[T]{h.kind.AddHandler(name), &h.kind.Controller, fn}
	added.handler.Daemon = added.runDaemon
	added.configure(options)
}

// Mutate reviews the creation of objects, or the operations of On, and stores what fn
// changes of Review.Object. The function must be idempotent. Without a response within 5
// seconds, the object is stored unchanged, unless FailurePolicy is Fail.
//
// Mutating webhooks are called before validating ones, in the order of their registration.
func (h *Handlers[T]) Mutate(name string, fn ReviewFunc[T], options ...ReviewOption) {
	h.registerReview("Mutate", name, fn, options)
}

// Validate reviews the creation and update of objects, or the operations of On. Without a
// response within 5 seconds, the change is denied, unless FailurePolicy is Ignore. Changes
// of Review.Object have no effect.
func (h *Handlers[T]) Validate(name string, fn ReviewFunc[T], options ...ReviewOption) {
	h.registerReview("Validate", name, fn, options)
}

func (h *Handlers[T]) registerReview(verb, name string, fn ReviewFunc[T], options []ReviewOption) {
	w := sdk.NewWebhook(verb, name)
	w.Admitter = &review[T]{w, &h.kind.Controller, name, fn}
	if fn == nil {
		w.AddProblem("the function is nil")
	}
	for _, o := range options {
		o.applyToReview(w)
	}
	h.kind.AddWebhook(w)
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

// Watches watches related objects, which the handled objects do not own: when one is
// created, changed or deleted, Setpoint calls the handlers of OnRelated for the objects that
// the function returns, with their namespace and name. It also retries their failed calls.
//
// Setpoint calls the function for the object before and after a change, so that the former
// and the new handled objects know. The function must be fast; it may use an Index. If it
// panics, the object has no handled objects, and the panic is logged.
//
// The related kind comes from For, with options such as Labels, and need not have handlers
// of its own. Changes while the program is not running call no handler: add OnResume, too.
func Watches[T, R any](handlers *Handlers[T], related *Handlers[R], handledBy func(o *R) []types.NamespacedName) {
	if handledBy == nil {
		handlers.kind.AddProblem("Watches: the function is nil")
	}
	handlers.kind.Watch(related.kind, func(o *object.Object) ([]types.NamespacedName, error) {
		typed, err := sdk.DecodeObject[R](o)
		if err != nil {
			return nil, err
		}
		return handledBy(typed), nil
	})
}
