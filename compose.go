package setpoint

import (
	"cmp"
	"context"
	"fmt"
	"reflect"
	"slices"
	"time"

	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/related"
)

// Composer manages the children of one kind of parent. Setpoint calls its functions when
// a parent or its children change, and creates, updates and deletes children to match the
// desired ones. Handlers react to changes; a Composer declares the desired state.
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

// ComposeFunc computes the desired children of a parent. It must be safe for concurrent
// use with different parents, and depend only on the ComposeContext: Setpoint calls it
// many times, and only when the parent or its children change.
type ComposeFunc[T any] func(ctx context.Context, f *ComposeContext[T]) error

// The names of the functions of a Composer.
const (
	nameSync     = "sync"
	nameFinalize = "finalize"
)

// Compose returns a Composer of a kind of parent. T and the options are those of For. In
// an app that is limited to namespaces, Workers are shared among them.
func Compose[T any](app *App, options ...KindOption) *Composer[T] {
	c := &Composer[T]{guard: plan.DefaultDeletionLimit()}
	c.c.register(app, reflect.TypeFor[T](), options, c)
	return c
}

// Sync sets the function that computes the desired children of a parent. Setpoint deletes
// all other children of the kinds in Owns.
func (c *Composer[T]) Sync(fn ComposeFunc[T]) {
	c.c.checkOnce("Sync", c.sync != nil, fn == nil)
	c.sync = fn
}

// Finalize sets the function that computes the children of a parent that is being deleted
// or no longer matches. The parent stays until the function returns nil without desired
// children and without a requeue, and no children are left.
func (c *Composer[T]) Finalize(fn ComposeFunc[T]) {
	c.c.checkOnce("Finalize", c.finalize != nil, fn == nil)
	c.finalize = fn
}

// Customize sets the function that selects related objects for the other functions, of
// the kinds of objs and of the children. It must depend only on the parent.
func (c *Composer[T]) Customize(fn CustomizeFunc[T], obj ...any) {
	c.c.declare("Customize", &c.c.reads, obj)
	c.c.checkOnce("Customize", c.customize != nil, fn == nil)
	c.customize = fn
}

// Resync calls Sync for each parent at least this often.
func (c *Composer[T]) Resync(every time.Duration) {
	if every <= 0 {
		c.c.app.addProblem("Resync(%s): must be greater than zero", every)
	}
	c.resync = every
}

// SyncOnStatusChange also calls Sync when another client changed only the status of a
// parent.
func (c *Composer[T]) SyncOnStatusChange() { c.syncOnStatus = true }

// OmitConditions leaves the conditions Synced, Reconciling and Stalled out of the status
// of parents. By default Setpoint sets them if the schema of the parents has
// status.conditions. It does not change a condition that Sync sets.
func (c *Composer[T]) OmitConditions() { c.omitConditions = true }

// GuardDeletions sets the limits above which Setpoint holds deletions until a user
// confirms them: more than maxDeletions, and more than maxPercent of the children that
// are desired now or were created within ten minutes. Deletions after a change of the
// parent's spec do not count. The defaults are 5 and 25; with 0 and 0 every deletion is
// held.
func (c *Composer[T]) GuardDeletions(maxDeletions, maxPercent int) {
	if maxDeletions < 0 || maxPercent < 0 || maxPercent > 100 {
		c.c.app.addProblem("GuardDeletions(%d, %d): maxDeletions must not be negative, and maxPercent must be 0 to 100",
			maxDeletions, maxPercent)
	}
	c.guard = &plan.DeletionLimit{MaxDeletions: maxDeletions, MaxPercent: maxPercent}
}

// NoDeletionGuard disables the deletion guard.
func (c *Composer[T]) NoDeletionGuard() { c.guard = nil }

// Owns declares a kind of children by an object of it, and how Setpoint updates a child
// that differs from the desired one. The default is server-side apply in place.
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

// checkOnce reports a function that is nil or set twice.
func (c *controller) checkOnce(verb string, isSet, isNil bool) {
	if isSet || isNil {
		c.problems = append(c.problems, fmt.Errorf("%s: set one function, which must not be nil", verb))
	}
}

func (c *Composer[T]) stateless() bool { return false }

func (c *Composer[T]) functions() []namedFunction {
	all := []namedFunction{{nameSync, c.hook(c.sync)}}
	if c.finalize != nil {
		all = append(all, namedFunction{nameFinalize, c.hook(c.finalize)})
	}
	return all
}

func (c *Composer[T]) checkFunctions() (problems []error) {
	say := func(text string) { problems = append(problems, fmt.Errorf("%s: %s", c.c.name(), text)) }
	if c.sync == nil {
		say("Sync is required")
	}
	if c.c.fields != "" && c.finalize != nil {
		say("FieldSelector and Finalize are mutually exclusive, because Setpoint does not observe a parent that no longer matches; use " +
			"Labels")
	}
	seen := map[kind]bool{}
	for _, k := range c.c.owns {
		if seen[k] {
			say(k.String() + " is declared by Owns twice")
		}
		seen[k] = true
	}
	return problems
}

// compile returns the program of the functions, or one for each namespace of a limited
// app.
func (c *Composer[T]) compile(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
	found, err := c.c.resolveResources(ctx, env)
	if err != nil {
		return nil, err
	}
	p := composite.Program{
		Name: c.c.name(), Parent: found.resource, Sync: c.hook(c.sync), Finalizer: c.c.finalizer(),
		GenerateSelector: true, SyncOnStatusChange: c.syncOnStatus, Resync: c.resync,
		LastApplied: appliedFields, OmitValues: true, Manager: c.c.fieldManager(), Workers: cmp.Or(c.c.workers, env.Workers),
		Fields: c.c.fields, Reads: found.reads,
		Scope:     related.Scope{Version: hook.V2, Namespaced: found.resource.Namespaced, Namespaces: env.Namespaces},
		Revisions: composite.Revisions{Namespace: env.Namespace}, DeletionLimit: c.guard,
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
		p.Selections = []composite.Selection{{Labels: selector}}
	}
	if c.finalize != nil {
		p.Finalize = c.hook(c.finalize)
	}
	if c.customize != nil {
		p.Customize = c.customizer(slices.Concat(found.reads, found.owns))
	}
	for i, resource := range found.owns {
		rule := c.rules[i]
		rule.Resource = resource
		p.Children = append(p.Children, rule)
	}
	return &compile.Compiled{Programs: compile.PerNamespace(p, c.c.namespacesFor(found.resource))}, nil
}

// appliedFields is the annotation of children with the last applied fields.
const appliedFields = "setpoint.dev/applied-fields"

// OwnsOption configures how Setpoint updates children.
type OwnsOption interface{ applyToRule(*plan.Rule) }

type ownsOption func(*plan.Rule)

func (o ownsOption) applyToRule(r *plan.Rule) { o(r) }

// UpdateStrategyType is how Setpoint updates a child that differs from the desired one.
type UpdateStrategyType string

// The update strategies.
const (
	// InPlace updates the child. It is the default.
	InPlace UpdateStrategyType = "InPlace"
	// Recreate deletes the child, and creates it when it is gone.
	Recreate UpdateStrategyType = "Recreate"
	// OnDelete does not update the child until a user deletes it.
	OnDelete UpdateStrategyType = "OnDelete"
	// RollingInPlace and RollingRecreate update one child after the other, each when the
	// previous ones are ready.
	RollingInPlace  UpdateStrategyType = "RollingInPlace"
	RollingRecreate UpdateStrategyType = "RollingRecreate"
)

// UpdateStrategy sets the update strategy of a kind of children.
func UpdateStrategy(m UpdateStrategyType) OwnsOption {
	return ownsOption(func(r *plan.Rule) { r.Method = plan.UpdateMethod(m) })
}

// MaxUnavailable is how many children a rolling strategy may update at once. The default
// is 1.
func MaxUnavailable(n int) OwnsOption {
	return ownsOption(func(r *plan.Rule) { r.MaxUnavailable = n })
}

// ReadyWhen sets when a rolling strategy considers a child ready: its status has a
// condition of this type and status, such as ReadyWhen("Ready", "True").
func ReadyWhen(condition, status string) OwnsOption {
	return ownsOption(func(r *plan.Rule) {
		r.StatusChecks = append(r.StatusChecks, plan.StatusCheck{Type: condition, Status: status})
	})
}
