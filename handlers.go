package setpoint

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/schedule"
)

// HandlerFunc is a handler of objects of type T. What it wants written it says by what
// it does to the call; it is written when the function has returned nil, and all
// of it is dropped when it returns an error. It must be safe for concurrent use
// for different objects; for one object, one handler is called at a time.
type HandlerFunc[T any] func(ctx context.Context, c *Call[T]) error

// Handlers are the handlers of one kind of object, told in the order in which they
// were registered, and its reviews, asked before objects are stored: see Mutate and
// Validate. A kind that has nothing but reviews is not watched.
//
// One function registered several times is one handler with several reasons: it
// is told of each state once. Options given at one registration hold for all.
type Handlers[T any] struct {
	c        controller
	handlers []*handler[T]
	reviews  []*review[T]
	memories *memories
	indexes  []indexer
	watches  watches
}

// For begins the handlers of a kind of object. T is a struct as in k8s.io/api, or
// one named like the kind of a CRD that the app was given; in the version after
// which the package of T is named if that is served, else in the one that is
// stored. For any other type, also Unstructured, say Kind.
func For[T any](app *App, options ...KindOption) *Handlers[T] {
	h := &Handlers[T]{c: newController[T](app, options), memories: newMemories()}
	app.registrations = append(app.registrations, h)
	return h
}

// OnCreate has do told of each object once, also of those that are older than the
// program, and of those that begin to match its filters later.
func (h *Handlers[T]) OnCreate(fn HandlerFunc[T], options ...HandlerOption) {
	h.register(fn, options).addReason(hook.ReasonCreate)
}

// OnUpdate has do told when a watched field is not what it was when the handler
// was last told, also while the program did not run. See Field.
func (h *Handlers[T]) OnUpdate(fn HandlerFunc[T], options ...HandlerOption) {
	h.register(fn, options).addReason(hook.ReasonUpdate)
}

// OnField is OnUpdate for one field, such as "spec.currency".
func (h *Handlers[T]) OnField(path string, fn HandlerFunc[T], options ...HandlerOption) {
	h.OnUpdate(fn, append(slices.Clip(options), Field(path))...)
}

// OnDelete has do told while an object is being deleted. The object stays until
// it has succeeded, unless Optional.
func (h *Handlers[T]) OnDelete(fn HandlerFunc[T], options ...HandlerOption) {
	h.register(fn, options).addReason(hook.ReasonDelete)
}

// OnResume has do told once, after the program started, of each object that had
// been dealt with before.
func (h *Handlers[T]) OnResume(fn HandlerFunc[T], options ...HandlerOption) {
	h.register(fn, options).addReason(hook.ReasonResume)
}

// OnEvent has do told of every change that is seen, also of the status, and of an
// object's end, for which Gone is set. It is not told again when it fails.
func (h *Handlers[T]) OnEvent(fn HandlerFunc[T], options ...HandlerOption) {
	h.register(fn, options).addReason(hook.ReasonEvent)
}

// OnDrift has do told when an object that the handled one owns was changed or
// deleted by somebody else, also while the program did not run. See Owns.
func (h *Handlers[T]) OnDrift(fn HandlerFunc[T], options ...HandlerOption) {
	h.register(fn, options).addReason(hook.ReasonDrift)
}

// Every has do told at this interval, for the first time one interval after the
// object was created. The moments stay the same when the program starts anew; one
// that passes while the handler runs or fails is passed over.
func (h *Handlers[T]) Every(interval time.Duration, fn HandlerFunc[T], options ...HandlerOption) {
	s := h.register(fn, options)
	if interval <= 0 {
		s.addProblem("Every(%s): must be more than nothing", interval)
	}
	setOnce(s, "Every", &s.spec.Every, interval)
}

// Schedule has do told by a cron expression of five fields, such as
// "30 4 * * mon-fri", or by @hourly, @daily, @weekly, @monthly or @yearly; in UTC
// unless the expression begins with another zone, such as "TZ=Europe/Berlin ".
func (h *Handlers[T]) Schedule(cron string, fn HandlerFunc[T], options ...HandlerOption) {
	s := h.register(fn, options)
	schedule, err := schedule.Parse(cron)
	if err != nil {
		s.addProblem("Schedule: %w", err)
	}
	s.spec.Schedule = schedule
}

// Daemon runs do for each object, from when it is first seen and matches until it
// is being deleted, ceases to match, or the program ends: its context says so,
// and an object that is being deleted stays until do has returned, or for the
// StopTimeout. Call.Write writes what it has to say and has Call.Object be as it is
// stored; Call.Changed and Call.Refresh say what other clients change meanwhile. One that returns nil has done its work;
// one that returns an error is started again after a backoff. It is called as
// often at once as there are objects.
func (h *Handlers[T]) Daemon(fn HandlerFunc[T], options ...HandlerOption) {
	handler := h.handler(fn, options)
	handler.daemon = true
}

// Owns declares kinds of objects that the handlers apply and that belong to the
// handled one: they are watched, Call.Owned finds them, and what happens to them
// calls the Drift handlers. An object stands for its kind: &corev1.ConfigMap{}.
func (h *Handlers[T]) Owns(obj ...any) { h.c.declare("Owns", &h.c.owns, obj) }

// Applies declares kinds of objects that the handlers apply, beside those that
// they own.
func (h *Handlers[T]) Applies(obj ...any) { h.c.declare("Applies", &h.c.applies, obj) }

// Deletes declares kinds of objects that the handlers delete although they do not
// belong to the handled one.
func (h *Handlers[T]) Deletes(obj ...any) { h.c.declare("Deletes", &h.c.deletes, obj) }

// Evicts declares that the handlers evict pods.
func (h *Handlers[T]) Evicts() { h.c.evicts = true }

// Reads declares kinds of objects that the handlers look at with Call.List.
func (h *Handlers[T]) Reads(obj ...any) { h.c.declare("Reads", &h.c.reads, obj) }

// register finds or makes the handler that a function is.
func (h *Handlers[T]) register(fn HandlerFunc[T], options []HandlerOption) *handlerSettings {
	return h.handler(fn, options).handlerSettings
}

func (h *Handlers[T]) handler(fn HandlerFunc[T], options []HandlerOption) *handler[T] {
	name, err := nameOf(fn, options)
	if err != nil {
		h.c.problems = append(h.c.problems, err)
	}
	i := slices.IndexFunc(h.handlers, func(one *handler[T]) bool { return one.name == name })
	if i < 0 {
		i = len(h.handlers)
		h.handlers = append(h.handlers, &handler[T]{handlerSettings: newHandlerSettings(), handlers: h, fn: fn})
		h.handlers[i].name = name
	}
	found := h.handlers[i]
	if err == nil && codePointer(found.fn) != codePointer(fn) {
		found.addProblem("there are two functions of this name: give one of them a setpoint.Name")
	}
	for _, o := range options {
		o.applyToHandler(found.handlerSettings)
	}
	return found
}

// nameOf is the name that an option gives a handler, or its function's.
func nameOf[T any](fn HandlerFunc[T], options []HandlerOption) (string, error) {
	probe := newHandlerSettings()
	for _, o := range options {
		o.applyToHandler(probe)
	}
	if probe.name != "" {
		return probe.name, nil
	}
	return funcName(codePointer(fn))
}

// funcName is what a function is called whose code is there.
func funcName(code uintptr) (string, error) {
	if code == 0 {
		return "", errors.New("a handler is nil")
	}
	full := runtime.FuncForPC(code).Name()
	name, _, _ := strings.Cut(full, "[") // Generic functions.
	name = strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "-fm")
	if generatedName().MatchString(name) {
		return name, fmt.Errorf("the handler %s has no name of its own: give it a setpoint.Name", full)
	}
	return name, nil
}

// generatedName are the names that compilers give to functions that have none. They
// change when another one is written before them.
func generatedName() *regexp.Regexp { return regexp.MustCompile(`^(func)?\d+$`) }

// codePointer tells functions apart.
func codePointer[T any](fn HandlerFunc[T]) uintptr { return reflect.ValueOf(fn).Pointer() }

func (h *Handlers[T]) stateless() bool { return len(h.handlers) == 0 }

func (h *Handlers[T]) controller() *controller { return &h.c }

func (h *Handlers[T]) check() []error {
	problems := h.c.check()
	if len(h.handlers)+len(h.indexes)+len(h.reviews) == 0 {
		problems = append(problems, fmt.Errorf("%s: has no handler and no index, and no review", h.c.name()))
	}
	for _, one := range h.handlers {
		problems = append(problems, one.check(&h.c)...)
	}
	return append(problems, h.checkReviews()...)
}

func (h *Handlers[T]) findHandler(name string) hook.Handler {
	for _, one := range h.handlers {
		if one.name == name && !one.daemon {
			return one
		}
	}
	return nil
}

func (h *Handlers[T]) findHook(string) hook.Hook { return nil }

func (h *Handlers[T]) functionNames() []string {
	var all []string
	for _, one := range h.handlers {
		if !one.daemon {
			all = append(all, one.name)
		}
	}
	for _, one := range h.reviews {
		all = append(all, one.name)
	}
	return all
}
