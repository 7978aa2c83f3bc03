package setpoint

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/compose"
	"github.com/setpoint-dev/setpoint/internal/manager"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// Composer answers what the children of one kind of parent should be, given what
// is: it is called whenever the parent or its children change, and what it answers
// is made so. Where a handler does something about what happened, this says how
// things are to be.
type Composer[T any] struct {
	c              controller
	rules          []plan.Rule
	sync, finalize ComposeFunc[T]
	customize      CustomizeFunc[T]
	resync         time.Duration
	syncOnStatus   bool
	omitConditions bool
	guard          *plan.DeletionLimit
}

// ComposeFunc says what is to be of a parent and its children. It must be safe for
// concurrent use for different parents, and its answer should depend on nothing
// but what it is shown: it is called again and again, and not called while none of
// that changes.
type ComposeFunc[T any] func(ctx context.Context, f *ComposeContext[T]) error

// What the functions of a Composer are called.
const (
	nameSync     = "sync"
	nameFinalize = "finalize"
)

// Compose begins a controller of parents and their children. T and the options are
// as for For; Workers are shared out among the namespaces of a run that is limited
// to some.
func Compose[T any](app *App, options ...KindOption) *Composer[T] {
	c := &Composer[T]{c: newController[T](app, options), guard: plan.DefaultDeletionLimit()}
	app.registrations = append(app.registrations, c)
	return c
}

// Sync says what the children of a parent should be: those that the function
// wants, and no others of the kinds that Owns declares.
func (c *Composer[T]) Sync(fn ComposeFunc[T]) {
	c.c.checkOnce("Sync", c.sync != nil, fn == nil)
	c.sync = fn
}

// Finalize says what should be left of a parent that is being deleted, or that
// does not match any longer. The parent stays until the function has returned nil,
// wants no children, has not asked to be called again, and no children are left.
func (c *Composer[T]) Finalize(fn ComposeFunc[T]) {
	c.c.checkOnce("Finalize", c.finalize != nil, fn == nil)
	c.finalize = fn
}

// Customize says which objects the other functions are shown beside a parent and
// its children, of the kinds for which objects stand and of those of the children.
// It may depend on nothing but the parent.
func (c *Composer[T]) Customize(fn CustomizeFunc[T], obj ...any) {
	c.c.declare("Customize", &c.c.reads, obj)
	c.c.checkOnce("Customize", c.customize != nil, fn == nil)
	c.customize = fn
}

// Resync calls Sync for each parent at least this often, whether or not anything
// changes.
func (c *Composer[T]) Resync(every time.Duration) {
	if every <= 0 {
		c.c.app.addProblem("Resync(%s): must be more than nothing", every)
	}
	c.resync = every
}

// SyncOnStatusChange calls Sync also when only the status of a parent was changed,
// by somebody else.
func (c *Composer[T]) SyncOnStatusChange() { c.syncOnStatus = true }

// OmitConditions leaves the conditions Synced, Reconciling and Stalled out of the
// status of parents. They are kept there if the schema of the parents has
// status.conditions; one that Sync sets itself is left to it.
func (c *Composer[T]) OmitConditions() { c.omitConditions = true }

// GuardDeletions sets the limit above which deletions are held until a person
// confirms them: those that only a Sync explains which leaves a child out, not an
// edit of the parent's spec, when they are more than maxDeletions and more than
// maxPercent of all children, wanted now or made within ten minutes. 5 and 25 unless
// set; with 0 and 0 each one is held.
func (c *Composer[T]) GuardDeletions(maxDeletions, maxPercent int) {
	if maxDeletions < 0 || maxPercent < 0 || maxPercent > 100 {
		c.c.app.addProblem("GuardDeletions(%d, %d): takes a count of at least 0 and a percentage from 0 to 100", maxDeletions, maxPercent)
	}
	c.guard = &plan.DeletionLimit{MaxDeletions: maxDeletions, MaxPercent: maxPercent}
}

// NoDeletionGuard deletes whatever Sync leaves out, however much that is.
func (c *Composer[T]) NoDeletionGuard() { c.guard = nil }

// Owns declares a kind of children, for which an object stands, and how a child
// that is not as wanted is brought in line: by server-side apply in place unless
// options say otherwise.
func (c *Composer[T]) Owns(obj any, options ...OwnsOption) {
	rule := plan.Rule{Method: plan.InPlace, Strategy: plan.ServerSide}
	for _, o := range options {
		o.applyToRule(&rule)
	}
	if rule.MaxUnavailable < 0 {
		c.c.app.addProblem("Owns(%T): MaxUnavailable must not be negative", obj)
	}
	c.rules = append(c.rules, rule)
	c.c.declare("Owns", &c.c.owns, []any{obj})
}

// checkOnce refuses a second function for the same, and one that is nil.
func (c *controller) checkOnce(verb string, isSet, isNil bool) {
	if isSet || isNil {
		c.problems = append(c.problems, fmt.Errorf("%s: takes one function, which is not nil", verb))
	}
}

func (c *Composer[T]) stateless() bool                      { return false }
func (c *Composer[T]) controller() *controller              { return &c.c }
func (c *Composer[T]) waitForIndexes(context.Context) error { return nil }
func (c *Composer[T]) hasIndex(object.GroupKind) bool       { return false }
func (c *Composer[T]) fillIndexes([]*object.Object) func()  { return func() {} }
func (c *Composer[T]) findHandler(string) hook.Handler      { return nil }

func (c *Composer[T]) findHook(name string) hook.Hook {
	switch {
	case name == nameSync && c.sync != nil:
		return c.hook(c.sync)
	case name == nameFinalize && c.finalize != nil:
		return c.hook(c.finalize)
	}
	return nil
}

func (c *Composer[T]) functionNames() []string {
	all := []string{nameSync}
	if c.finalize != nil {
		all = append(all, nameFinalize)
	}
	return all
}

func (c *Composer[T]) goController() manager.GoController {
	return manager.GoController{Name: c.c.name(), Compile: c.compile}
}

func (c *Composer[T]) check() []error {
	problems := c.c.check()
	say := func(text string) { problems = append(problems, fmt.Errorf("%s: %s", c.c.name(), text)) }
	if c.sync == nil {
		say("has no function: say Sync")
	}
	if c.c.fields != "" && c.finalize != nil {
		say("FieldSelector and Finalize do not go together: a parent that matches no more would be out of sight, with nobody to finalize it; select by Labels")
	}
	seen := map[kind]bool{}
	for _, k := range c.c.owns {
		if seen[k] {
			say(k.String() + " is declared twice: one Owns decides how its objects are updated")
		}
		seen[k] = true
	}
	return problems
}

// compile makes the program of the functions: one for each namespace of a run that
// is limited to some.
func (c *Composer[T]) compile(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
	found, err := c.c.resolveResources(ctx, env)
	if err != nil {
		return nil, err
	}
	p := compose.Program{
		Name: c.c.name(), Parent: found.resource, Sync: c.hook(c.sync), Finalizer: c.c.finalizer(),
		GenerateSelector: true, SyncOnStatusChange: c.syncOnStatus, Resync: c.resync,
		LastApplied: appliedFields, OmitValues: true, Manager: c.c.fieldManager(), Workers: cmp.Or(c.c.workers, env.Workers),
		Fields: c.c.fields, Reads: found.reads,
		Scope:     related.Scope{Version: hook.V2, Namespaced: found.resource.Namespaced},
		Revisions: compose.Revisions{Namespace: env.Namespace}, DeletionLimit: c.guard,
	}
	if !c.omitConditions {
		if p.Conditions, err = env.Conditions(ctx, found.resource); err != nil {
			return nil, err
		}
	}
	if c.c.labels != "" {
		selector, err := labels.Parse(c.c.labels)
		if err != nil {
			return nil, err
		}
		p.Selections = []compose.Selection{{Labels: selector}}
	}
	if c.finalize != nil {
		p.Finalize = c.hook(c.finalize)
	}
	if c.customize != nil {
		p.Customize = &customizer[T]{composer: c, served: slices.Concat(found.reads, found.owns)}
	}
	for i, resource := range found.owns {
		rule := c.rules[i]
		rule.Resource = resource
		p.Children = append(p.Children, rule)
	}
	return &compile.Compiled{Programs: c.c.perNamespace(p)}, nil
}

// perNamespace is a program as one for each namespace of a limited run. They share its
// workers.
func (c *controller) perNamespace(p compose.Program) []compose.Program {
	if len(c.runNamespaces) == 0 || !p.Parent.Namespaced {
		return []compose.Program{p}
	}
	p.Scope.Namespaces = c.runNamespaces
	p.Workers = (p.Workers + len(c.runNamespaces) - 1) / len(c.runNamespaces)
	var all []compose.Program
	for _, p.Namespace = range c.runNamespaces {
		all = append(all, p)
	}
	return all
}

// appliedFields is the annotation of children that says what was applied.
const appliedFields = "setpoint.dev/applied-fields"

// OwnsOption says how children are brought in line.
type OwnsOption interface{ applyToRule(*plan.Rule) }

type ownsOption func(*plan.Rule)

func (o ownsOption) applyToRule(r *plan.Rule) { o(r) }

// UpdateStrategyType is how a child that is not as wanted is brought in line.
type UpdateStrategyType string

// The update methods.
const (
	// InPlace updates it. It is the default.
	InPlace UpdateStrategyType = "InPlace"
	// Recreate deletes it, and creates it anew once it is gone.
	Recreate UpdateStrategyType = "Recreate"
	// OnDelete leaves it alone until somebody deletes it.
	OnDelete UpdateStrategyType = "OnDelete"
	// RollingInPlace and RollingRecreate do the same to one child after the other,
	// each once those before it are well.
	RollingInPlace  UpdateStrategyType = "RollingInPlace"
	RollingRecreate UpdateStrategyType = "RollingRecreate"
)

// UpdateStrategy has children brought in line in a way.
func UpdateStrategy(m UpdateStrategyType) OwnsOption {
	return ownsOption(func(r *plan.Rule) { r.Method = plan.UpdateMethod(m) })
}

// MaxUnavailable is how many children a rolling method may have under way at once;
// 1 unless told otherwise.
func MaxUnavailable(n int) OwnsOption {
	return ownsOption(func(r *plan.Rule) { r.MaxUnavailable = n })
}

// ReadyWhen says for rolling methods that a child is well when its status has a
// condition of that type and status, such as ReadyWhen("Ready", "True").
func ReadyWhen(condition, status string) OwnsOption {
	return ownsOption(func(r *plan.Rule) {
		r.StatusChecks = append(r.StatusChecks, plan.StatusCheck{Type: condition, Status: status})
	})
}
