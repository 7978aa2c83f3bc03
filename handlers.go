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
	"github.com/setpoint-dev/setpoint/internal/calendar"
)

// Func is a handler of objects of type T. What it wants written it says by what
// it does to the call; it is written when the function has returned nil, and all
// of it is dropped when it returns an error. It must be safe for concurrent use
// for different objects; for one object, one handler is called at a time.
type Func[T any] func(ctx context.Context, c *Call[T]) error

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
	app.parts = append(app.parts, h)
	return h
}

// OnCreate has do told of each object once, also of those that are older than the
// program, and of those that begin to match its filters later.
func (h *Handlers[T]) OnCreate(do Func[T], options ...HandlerOption) {
	h.register(do, options).on(hook.ReasonCreate)
}

// OnUpdate has do told when a watched field is not what it was when the handler
// was last told, also while the program did not run. See Field.
func (h *Handlers[T]) OnUpdate(do Func[T], options ...HandlerOption) {
	h.register(do, options).on(hook.ReasonUpdate)
}

// OnField is OnUpdate for one field, such as "spec.currency".
func (h *Handlers[T]) OnField(path string, do Func[T], options ...HandlerOption) {
	h.OnUpdate(do, append(slices.Clip(options), Field(path))...)
}

// OnDelete has do told while an object is being deleted. The object stays until
// it has succeeded, unless Optional.
func (h *Handlers[T]) OnDelete(do Func[T], options ...HandlerOption) {
	h.register(do, options).on(hook.ReasonDelete)
}

// OnResume has do told once, after the program started, of each object that had
// been dealt with before.
func (h *Handlers[T]) OnResume(do Func[T], options ...HandlerOption) {
	h.register(do, options).on(hook.ReasonResume)
}

// OnEvent has do told of every change that is seen, also of the status, and of an
// object's end, for which Gone is set. It is not told again when it fails.
func (h *Handlers[T]) OnEvent(do Func[T], options ...HandlerOption) {
	h.register(do, options).on(hook.ReasonEvent)
}

// OnDrift has do told when an object that the handled one owns was changed or
// deleted by somebody else, also while the program did not run. See Owns.
func (h *Handlers[T]) OnDrift(do Func[T], options ...HandlerOption) {
	h.register(do, options).on(hook.ReasonDrift)
}

// Every has do told at this interval, for the first time one interval after the
// object was created. The moments stay the same when the program starts anew; one
// that passes while the handler runs or fails is passed over.
func (h *Handlers[T]) Every(interval time.Duration, do Func[T], options ...HandlerOption) {
	s := h.register(do, options)
	if interval <= 0 {
		s.problem("Every(%s): must be more than nothing", interval)
	}
	set(s, "Every", &s.plan.Every, interval)
}

// Schedule has do told by a cron expression of five fields, such as
// "30 4 * * mon-fri", or by @hourly, @daily, @weekly, @monthly or @yearly; in UTC
// unless the expression begins with another zone, such as "TZ=Europe/Berlin ".
func (h *Handlers[T]) Schedule(cron string, do Func[T], options ...HandlerOption) {
	s := h.register(do, options)
	schedule, err := calendar.Parse(cron)
	if err != nil {
		s.problem("Schedule: %w", err)
	}
	s.plan.Schedule = schedule
}

// Daemon runs do for each object, from when it is first seen and matches until it
// is being deleted, ceases to match, or the program ends: its context says so,
// and an object that is being deleted stays until do has returned, or for the
// StopTimeout. Call.Write writes what it has to say and has Call.Object be as it is
// stored; Call.Changed and Call.Refresh say what other clients change meanwhile. One that returns nil has done its work;
// one that returns an error is started again after a backoff. It is called as
// often at once as there are objects.
func (h *Handlers[T]) Daemon(do Func[T], options ...HandlerOption) {
	handler := h.handler(do, options)
	handler.daemon = true
}

// Owns declares kinds of objects that the handlers apply and that belong to the
// handled one: they are watched, Call.Owned finds them, and what happens to them
// calls the Drift handlers. An object stands for its kind: &corev1.ConfigMap{}.
func (h *Handlers[T]) Owns(like ...any) { h.c.declare("Owns", &h.c.owns, like) }

// Applies declares kinds of objects that the handlers apply, beside those that
// they own.
func (h *Handlers[T]) Applies(like ...any) { h.c.declare("Applies", &h.c.applies, like) }

// Deletes declares kinds of objects that the handlers delete although they do not
// belong to the handled one.
func (h *Handlers[T]) Deletes(like ...any) { h.c.declare("Deletes", &h.c.deletes, like) }

// Evicts declares that the handlers evict pods.
func (h *Handlers[T]) Evicts() { h.c.evicts = true }

// Reads declares kinds of objects that the handlers look at with Call.List.
func (h *Handlers[T]) Reads(like ...any) { h.c.declare("Reads", &h.c.reads, like) }

// register finds or makes the handler that a function is.
func (h *Handlers[T]) register(do Func[T], options []HandlerOption) *settings {
	return h.handler(do, options).settings
}

func (h *Handlers[T]) handler(do Func[T], options []HandlerOption) *handler[T] {
	name, err := nameOf(do, options)
	if err != nil {
		h.c.problems = append(h.c.problems, err)
	}
	i := slices.IndexFunc(h.handlers, func(one *handler[T]) bool { return one.name == name })
	if i < 0 {
		i = len(h.handlers)
		h.handlers = append(h.handlers, &handler[T]{settings: newSettings(), of: h, do: do})
		h.handlers[i].name = name
	}
	found := h.handlers[i]
	if err == nil && code(found.do) != code(do) {
		found.problem("there are two functions of this name: give one of them a setpoint.Name")
	}
	for _, o := range options {
		o.ofHandler(found.settings)
	}
	return found
}

// nameOf is the name that an option gives a handler, or its function's.
func nameOf[T any](do Func[T], options []HandlerOption) (string, error) {
	probe := newSettings()
	for _, o := range options {
		o.ofHandler(probe)
	}
	if probe.name != "" {
		return probe.name, nil
	}
	return nameOfFunction(code(do))
}

// nameOfFunction is what a function is called whose code is there.
func nameOfFunction(code uintptr) (string, error) {
	if code == 0 {
		return "", errors.New("a handler is nil")
	}
	full := runtime.FuncForPC(code).Name()
	name, _, _ := strings.Cut(full, "[") // Generic functions.
	name = strings.TrimSuffix(name[strings.LastIndexByte(name, '.')+1:], "-fm")
	if nameless().MatchString(name) {
		return name, fmt.Errorf("the handler %s has no name of its own: give it a setpoint.Name", full)
	}
	return name, nil
}

// nameless are the names that compilers give to functions that have none. They
// change when another one is written before them.
func nameless() *regexp.Regexp { return regexp.MustCompile(`^(func)?\d+$`) }

// code tells functions apart.
func code[T any](do Func[T]) uintptr { return reflect.ValueOf(do).Pointer() }

func (h *Handlers[T]) traceless() bool { return len(h.handlers) == 0 }

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

func (h *Handlers[T]) handlerNamed(name string) hook.Handler {
	for _, one := range h.handlers {
		if one.name == name && !one.daemon {
			return one
		}
	}
	return nil
}

func (h *Handlers[T]) hookNamed(string) hook.Hook { return nil }

func (h *Handlers[T]) names() []string {
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
