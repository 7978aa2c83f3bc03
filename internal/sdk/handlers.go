package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/admission"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/compile"
	loop "github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/controller/trigger"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schedule"
)

// Handlers are the handlers, admission webhooks and indexes of one kind of object.
type Handlers struct {
	Controller

	handlers []*Handler
	webhooks []*Webhook
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

// Watch calls the handlers of OnRelated for the objects that the function returns for a related one.
func (h *Handlers) Watch(related *Handlers, handledBy func(*object.Object) ([]types.NamespacedName, error)) {
	h.app.when(related.app != h.app, "Watches: the related kind is of another app")
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
		Rules: trigger.Rules{
			Resource: found.resource, Finalizer: h.finalizer(),
			Record: lasthandled.Location{Annotation: lasthandled.AnnotationPrefix + h.markerName()},
		},
		Name: h.name(), Labels: h.Labels, Fields: h.Fields,
		Namespaces: h.namespacesFor(found.resource), Owns: found.owns, Writes: found.writes, Reads: found.reads, Manager: h.fieldManager(),
		Workers:    cmp.Or(h.Workers, env.Workers),
		Conditions: known.StatusHas(h.Kind, "conditions"),
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
		program.Record.StatusKey = h.markerName()
	}
	for _, k := range h.related {
		resource, err := resolveUsed(ctx, *env, k.of.Kind)
		if err != nil {
			return loop.Program{}, err
		}
		program.Related = append(program.Related, loop.Related{
			Resource: resource, Namespaces: k.of.namespacesFor(resource), Labels: k.of.Labels, Fields: k.of.Fields, Map: k.mapAndLog,
		})
	}
	program.Handlers = lists.Map(h.handlers, (*Handler).program)
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

// Handler is one handler: a function, its options, and when to call it.
type Handler struct {
	problems

	Name string
	// Spec is the handler as the program has it.
	Spec trigger.Handler
	// Once calls the function for a reason; Daemon runs it as long as its object matches. A handler has one of them.
	Once   hook.HandlerFunc
	Daemon trigger.Daemon

	// filters and predicates must all match.
	filters    []filter
	predicates []predicate
	// comparedFields are the fields that filters compare with the old object.
	comparedFields [][]string
	// optionReasons are the reasons that options require.
	optionReasons map[string]hook.Reason
}

// Handle calls the function. It implements hook.Handler.
func (h *Handler) Handle(ctx context.Context, n *hook.HandlerRequest) (*hook.HandlerResponse, error) {
	return h.Once(ctx, n)
}

// Changes returns the watched differences between two states of an object.
func (h *Handler) Changes(old, now json.RawMessage) ([]hook.FieldChange, error) {
	was, err := object.Parse(old)
	if err != nil {
		return nil, err
	}
	is, err := object.Parse(now)
	if err != nil {
		return nil, err
	}
	return h.Spec.Changes(was, is), nil
}

func (h *Handler) program() trigger.Handler {
	p := h.Spec
	p.Name, p.When = h.Name, h.predicate()
	if p.Daemon = h.Daemon; p.Daemon == nil {
		p.Do = h
	}
	return p
}

// AddReason calls the handler for a reason.
func (h *Handler) AddReason(reason hook.Reason) {
	if !slices.Contains(h.Spec.On, reason) {
		h.Spec.On = append(h.Spec.On, reason)
	}
}

// SetSchedule calls the handler on a cron schedule.
func (h *Handler) SetSchedule(cron string) {
	parsed, err := schedule.Parse(cron)
	h.when(err != nil, "Schedule: %w", err)
	h.Spec.Schedule = parsed
}

// RequireReason refuses an option of a handler that is not called for a reason.
func (h *Handler) RequireReason(option string, reason hook.Reason) { h.optionReasons[option] = reason }

// SetRetries limits the retries; 0 means none.
func (h *Handler) SetRetries(n int) {
	h.when(n < 0, "Retries: must not be negative")
	if n == 0 {
		n = -1 // Zero is no limit in the program.
	}
	h.Spec.Retries = n
}

// SetBackoff sets the first and the longest delay before a retry.
func (h *Handler) SetBackoff(first, most time.Duration) {
	h.SetDuration("Backoff", &h.Spec.Backoff, first)
	h.SetDuration("Backoff", &h.Spec.MaxBackoff, most)
	h.when(most < first, "Backoff(%s, %s): the maximum is shorter than the initial delay", first, most)
}

// AddFormerName adds a name that the handler had.
func (h *Handler) AddFormerName(name string) {
	err := validateName(name)
	h.when(err != nil, "FormerName(%q): %w", name, err)
	h.Spec.FormerNames = append(h.Spec.FormerNames, name)
}

// WatchFields limits the watched fields.
func (h *Handler) WatchFields(paths ...string) {
	for _, text := range paths {
		path, err := trigger.ParseField(text)
		if err != nil {
			h.AddProblem("Field: %w", err)
			continue
		}
		h.Spec.Fields = append(h.Spec.Fields, path)
	}
}

// SetPositive is SetDuration for an option that must not be zero either.
func (h *Handler) SetPositive(option string, field *time.Duration, d time.Duration) {
	h.when(d <= 0, "%s(%s): must be greater than zero", option, d)
	*field = d
}

// SetDuration sets a field of the Spec to the value of an option.
func (h *Handler) SetDuration(option string, field *time.Duration, d time.Duration) {
	h.when(d < 0, "%s: must not be negative", option)
	*field = d
}

func (h *Handler) hasReason(reason hook.Reason) bool {
	if reason == hook.ReasonTimer {
		return h.Spec.Every > 0 || h.Spec.Schedule != nil
	}
	return slices.Contains(h.Spec.On, reason)
}

func (h *Handler) check(c *Controller) []error {
	p := slices.Clone(h.problems)
	p.add(validateName(h.Name))
	for _, option := range slices.Sorted(maps.Keys(h.optionReasons)) {
		reason := h.optionReasons[option]
		p.when(!h.hasReason(reason), "%s: requires the reason %s", option, reason)
	}
	p.when(h.Spec.Every > 0 && h.Spec.Schedule != nil, "Every and Schedule: a handler has one timer: use another handler")
	p.when(h.Spec.FromFirstSeen && h.Spec.Every == 0, "InitialDelay: requires Every")
	p.when(h.hasReason(hook.ReasonDrift) && len(c.owns) == 0, "OnDrift: requires Owns")
	p.when(h.hasReason(hook.ReasonRelated) && len(c.related) == 0, "OnRelated: requires Watches")
	for _, one := range h.predicates {
		p.when(one.goType != c.goType, "the type of When is func(*%[1]s, *%[1]s) bool, and the handler has objects of %[2]s",
			one.goType, c.goType)
	}
	if h.Spec.KeepPreviousState {
		err := trigger.ValidateKeepPreviousState(c.Kind.Group())
		p.when(err != nil, "KeepPreviousState: %w", err)
		for _, path := range h.comparedFields {
			p.when(!h.Spec.Watches(path),
				"KeepPreviousState requires that the handler watches the field %s of FieldChanged: add it to Field",
				strings.Join(path, "."))
		}
	}
	p.when(h.Daemon == nil && len(h.Spec.On) == 0 && !h.hasReason(hook.ReasonTimer),
		"has no reason to be called: add one, such as OnCreate or Every")
	p.when(h.Daemon == nil && h.Spec.StopTimeout != 0, "StopTimeout requires a daemon")
	return p
}

// memories are the values of all objects of a kind, by UID.
type memories struct {
	mu    sync.Mutex
	byUID map[string]memory
}

// memory has the values of one object, by type.
type memory map[reflect.Type]any

func (m *memories) get(uid string, typed reflect.Type, fresh func() any) any {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.byUID == nil {
		m.byUID = map[string]memory{}
	}
	if m.byUID[uid] == nil {
		m.byUID[uid] = memory{}
	}
	one, known := m.byUID[uid][typed]
	if !known {
		one = fresh()
		m.byUID[uid][typed] = one
	}
	return one
}

// onEvent drops the values of a deleted object.
func (m *memories) onEvent(e cache.Event) {
	if e.Old == nil || e.New != nil && e.New.UID() == e.Old.UID() {
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	delete(m.byUID, e.Old.UID())
}
