package sdk

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Handlers are the handlers, admission webhooks and indexes of one kind of object.
type Handlers struct {
	Controller

	handlers []*Handler
	webhooks []*Webhook
	memories memories
}

// NewHandlers adds the handlers of a kind of object to an app.
func NewHandlers(app *App, goType reflect.Type) *Handlers {
	h := &Handlers{}
	h.register(app, goType, h)
	return h
}

// AddHandler adds a handler without a function: the caller sets one.
func (h *Handlers) AddHandler(name string) *Handler {
	added := &Handler{Name: name, optionReasons: map[string]hook.Reason{}}
	h.handlers = append(h.handlers, added)
	return added
}

// AddWebhook adds an admission webhook.
func (h *Handlers) AddWebhook(w *Webhook) { h.webhooks = append(h.webhooks, w) }

// Memory returns the value of a type that handlers keep for an object, and makes it if there is none.
func (h *Handlers) Memory(uid string, typed reflect.Type, fresh func() any) any {
	return h.memories.get(uid, typed, fresh)
}

// Watch calls the handlers of OnRelated for the objects that the function returns for a related one.
func (h *Handlers) Watch(related *Handlers, handledBy func(*object.Object) ([]types.NamespacedName, error)) {
	if related.app != h.app {
		h.app.AddProblem("Watches: the related kind is of another app")
	}
	related.isRelated = true
	h.related = append(h.related, relatedKind{&related.Controller, handledBy})
}

func (h *Handlers) stateless() bool { return len(h.handlers) == 0 }

func (h *Handlers) checkFunctions() []error {
	var p problems
	p.when(len(h.handlers)+len(h.indexes)+len(h.webhooks) == 0 && !h.isRelated,
		"%s: register a handler, an admission webhook or an index", h.name())
	for _, one := range h.handlers {
		p = append(p, h.checkHandler(one)...)
	}
	named := map[string]bool{}
	for _, one := range h.webhooks {
		p = append(p, one.check(&h.Controller)...)
		p.when(named[one.name], "two admission webhooks of %[2]s are named %[1]q: rename one of them", one.name, h.name())
		named[one.name] = true
	}
	p.when(len(h.webhooks) > 0 && len(h.handlers)+len(h.indexes) == 0 && h.declaresHandlerAccess(),
		"%s: Owns, Applies, Deletes, Evicts and Reads require a handler", h.name())
	return p
}

// checkHandler returns all problems of a handler.
func (h *Handlers) checkHandler(one *Handler) []error {
	p := problems(one.check(&h.Controller))
	first := slices.IndexFunc(h.handlers, func(other *Handler) bool { return other.Name == one.Name })
	p.when(h.handlers[first] != one, "two handlers have this name: rename one of them")
	for _, former := range one.Spec.FormerNames {
		p.when(slices.ContainsFunc(h.handlers, func(other *Handler) bool {
			return other.Name == former || other != one && slices.Contains(other.Spec.FormerNames, former)
		}), "FormerName(%q): a handler has this name, or had it: use another one", former)
	}
	return p.of(fmt.Sprintf("handler %q of %s", one.Name, h.name()))
}

func (h *Handlers) functions() []namedFunction {
	var all []namedFunction
	for _, one := range h.handlers {
		if one.Once != nil {
			all = append(all, namedFunction{one.Name, one})
		}
	}
	for _, one := range h.webhooks {
		all = append(all, namedFunction{one.name, one.Admitter})
	}
	return all
}

// compile returns the programs of the admission webhooks, and of the handlers and
// indexes. A kind without handlers and indexes is not watched.
func (h *Handlers) compile(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
	found, err := h.resolveResources(ctx, env)
	if err != nil {
		return nil, err
	}
	reviews, err := h.admissionProgram(found.resource, &env)
	if err != nil {
		return nil, err
	}
	compiled := &compile.Compiled{Admission: reviews}
	if reviews != nil {
		compiled.AdmissionKinds = []object.Resource{found.resource}
	}
	if len(h.handlers)+len(h.indexes) == 0 {
		return compiled, nil
	}
	program, err := h.handlerProgram(ctx, &found, &env)
	if err != nil {
		return nil, err
	}
	compiled.Handlers = []loop.Program{program}
	if len(h.indexes) > 0 {
		compiled.Index = func(from *cache.Cache) (func(), error) { return h.startWatches(from, &program) }
	}
	if env.Store == nil {
		return compiled, nil // There is no cluster.
	}
	compiled.Release, err = h.startWatches(env.Store, &program)
	return compiled, err
}

// admissionProgram returns the program of the admission webhooks, or nil.
func (h *Handlers) admissionProgram(of object.Resource, env *compile.Environment) (*admission.Program, error) {
	if len(h.webhooks) == 0 {
		return nil, nil //nolint:nilnil // Documented.
	}
	// The configurations live in no namespace, and an app may run in several, for each
	// on its own. None of the names has a dot in it.
	p := &admission.Program{Name: h.name(), Configuration: h.app.name + "." + h.shortName() + "." + env.Namespace}
	for _, one := range h.webhooks {
		w := one.webhook(&h.Controller, of)
		w.Admitter = one.Admitter
		if !one.SystemNamespaces {
			w.ExemptNamespaces = env.ExemptNamespaces()
		}
		if compile.OnlyExempt(h.runNamespaces, w.ExemptNamespaces) {
			return nil, &compile.Refusal{Reason: api.ReasonInvalidSpec, Err: fmt.Errorf(
				"%s %q: limited to the namespaces %s, which admission webhooks exclude; use setpoint.IncludeSystemNamespaces",
				one.verb, one.name, strings.Join(h.runNamespaces, ", "))}
		}
		p.Webhooks = append(p.Webhooks, w)
	}
	// The API server calls them in this order.
	slices.SortStableFunc(p.Webhooks, func(a, b admission.Webhook) int { return reviewOrder(a) - reviewOrder(b) })
	return p, nil
}

// reviewOrder puts mutating webhooks before validating ones.
func reviewOrder(w admission.Webhook) int {
	if w.Mutates {
		return 0
	}
	return 1
}

func (h *Handlers) handlerProgram(ctx context.Context, found *resolvedResources, env *compile.Environment) (loop.Program, error) {
	known := h.app.kinds()
	program := loop.Program{
		Name: h.name(), Resource: found.resource, Labels: h.Labels, Fields: h.Fields,
		Namespaces: h.namespacesFor(found.resource), Owns: found.owns, Writes: found.writes, Reads: found.reads,
		HandledAnnotation: h.recordAnnotation(), Finalizer: h.finalizer(), Manager: h.fieldManager(), Workers: h.Workers,
		Conditions: known.StatusHas(h.Kind, "conditions"), Namespace: env.Namespace,
	}
	records := known.StatusHas(h.Kind, lasthandled.StatusField)
	if env.StatusOf != nil {
		// Its CRD need not be the program's, and may be newer than that.
		stored, err := env.StatusOf(ctx, found.resource)
		if err != nil {
			return loop.Program{}, err
		}
		program.Conditions, records = program.Conditions || stored.Conditions, records || stored.Records
	}
	if records {
		program.HandledStatusKey = h.markerName()
	}
	for _, k := range h.related {
		related, err := k.resolve(ctx, env)
		if err != nil {
			return loop.Program{}, err
		}
		program.Related = append(program.Related, related)
	}
	if program.Workers == 0 {
		program.Workers = env.Workers
	}
	program.Handlers = append(program.Handlers, lists.Map(h.handlers, (*Handler).program)...)
	return program, nil
}

// startWatches fills the indexes and drops memories by the watches of a program. It
// returns a function that stops both.
func (h *Handlers) startWatches(from *cache.Cache, p *loop.Program) (end func(), err error) {
	selector, err := labels.Parse(p.Labels)
	if err != nil {
		return nil, err
	}
	callbacks := []func(cache.Event){h.memories.onEvent}
	var ends []func()
	for _, index := range h.indexes {
		changed, stop := index.startWatch()
		callbacks, ends = append(callbacks, changed), append(ends, stop)
	}
	changed := func(e cache.Event) {
		e.Old, e.New = matching(e.Old, selector), matching(e.New, selector)
		for _, callback := range callbacks {
			callback(e)
		}
	}
	views := &[]*cache.View{}
	for _, selection := range p.Selections() {
		view := from.Watch(selection, changed)
		*views, ends = append(*views, view), append(ends, view.Close)
	}
	remove := h.watches.add(views)
	return func() {
		remove()
		for _, end := range ends {
			end()
		}
	}, nil
}
