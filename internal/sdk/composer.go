package sdk

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
	"github.com/setpoint-dev/setpoint/internal/plan/rolling"
	"github.com/setpoint-dev/setpoint/internal/related"
	"github.com/setpoint-dev/setpoint/internal/sdk/kinds"
)

// Composer manages the children of one kind of parent.
type Composer struct {
	Controller

	SyncOnStatusChange bool
	OmitConditions     bool
	// Guard limits deletions; nil for no limit.
	Guard *plan.DeletionLimit

	sync, finalize hook.Hook
	customize      customizeFunc
	rules          []plan.Rule
	resync         time.Duration
}

// customizeFunc selects the objects that are related to a parent.
type customizeFunc = func(ctx context.Context, parent json.RawMessage) ([]RelatedRule, error)

// RelatedRule is a setpoint.RelatedRule.
type RelatedRule struct {
	Object                  any
	Labels, NamespaceLabels *metav1.LabelSelector
	Namespace               string
	Names                   []string
}

// NewComposer adds a Composer of a kind of parent to an app.
func NewComposer(app *App, goType reflect.Type) *Composer {
	c := &Composer{Guard: plan.DefaultDeletionLimit()}
	c.register(app, goType, c)
	return c
}

// SetSync sets the function that computes the children; nil is a problem.
func (c *Composer) SetSync(fn hook.Hook) {
	c.checkOnce("Sync", c.sync != nil, fn == nil)
	c.sync = fn
}

// SetFinalize sets the function that computes the children of a parent that is being deleted; nil is a problem.
func (c *Composer) SetFinalize(fn hook.Hook) {
	c.checkOnce("Finalize", c.finalize != nil, fn == nil)
	c.finalize = fn
}

// SetCustomize sets the function that selects related objects, of the kinds of objs and of the children; nil is a problem.
func (c *Composer) SetCustomize(fn customizeFunc, objs []any) {
	c.declare("Customize", &c.reads, objs)
	c.checkOnce("Customize", c.customize != nil, fn == nil)
	c.customize = fn
}

// SetResync sets how often each parent is synced at least.
func (c *Composer) SetResync(every time.Duration) {
	c.app.when(every <= 0, "Resync(%s): must be greater than zero", every)
	c.resync = every
}

// GuardDeletions sets the limits of the guard.
func (c *Composer) GuardDeletions(maxDeletions, maxPercent int) {
	c.app.when(maxDeletions < 0 || maxPercent < 0 || maxPercent > 100,
		"GuardDeletions(%d, %d): maxDeletions must not be negative, and maxPercent must be 0 to 100", maxDeletions, maxPercent)
	c.Guard = &plan.DeletionLimit{MaxDeletions: maxDeletions, MaxPercent: maxPercent}
}

// OwnsBy declares a kind of children by an object of it, and how they are updated.
func (c *Composer) OwnsBy(rule plan.Rule, obj any) {
	c.app.when(rule.MaxUnavailable < 0, "Owns(%T): MaxUnavailable must not be negative", obj)
	c.rules = append(c.rules, rule)
	c.Owns(obj)
}

func (c *Composer) stateless() bool { return false }

func (c *Composer) functions() []namedFunction {
	all := []namedFunction{{"sync", c.sync}}
	if c.finalize != nil {
		all = append(all, namedFunction{"finalize", c.finalize})
	}
	return all
}

func (c *Composer) checkFunctions() []error {
	var p problems
	p.when(c.sync == nil, "Sync is required")
	p.when(c.Fields != "" && c.finalize != nil, "FieldSelector and Finalize are mutually exclusive, because Setpoint does not observe "+
		"a parent that no longer matches; use Labels")
	for i, k := range c.owns {
		p.when(slices.Contains(c.owns[:i], k), "%s is declared by Owns twice", k)
	}
	return p.of(c.name())
}

// compile returns the program of the functions, or one for each namespace of a limited app.
func (c *Composer) compile(ctx context.Context, env compile.Environment) (*compile.Compiled, error) {
	found, err := c.resolveResources(ctx, env)
	if err != nil {
		return nil, err
	}
	p := composite.Program{
		Name: c.name(), Parent: found.resource, Sync: c.sync, Finalize: c.finalize, Finalizer: c.finalizer(),
		GenerateSelector: true, SyncOnStatusChange: c.SyncOnStatusChange, Resync: c.resync,
		LastApplied: plan.AppliedFieldsAnnotation, OmitValues: true, Manager: c.fieldManager(), Workers: cmp.Or(c.Workers, env.Workers),
		Fields: c.Fields, Reads: found.reads,
		Scope:     related.Scope{Version: hook.V2, Namespaced: found.resource.Namespaced, Namespaces: env.Namespaces},
		Revisions: rolling.Revisions{Namespace: env.Namespace}, DeletionLimit: c.Guard,
	}
	if !c.OmitConditions {
		if p.Conditions, err = env.Conditions(ctx, found.resource); err != nil {
			return nil, err
		}
	}
	if c.Labels != "" {
		selector, err := labels.Parse(c.Labels)
		if err != nil {
			return nil, err
		}
		p.Selections = []composite.Selection{{Labels: selector}}
	}
	if c.customize != nil {
		p.Customize = c.customizer(slices.Concat(found.reads, found.owns))
	}
	for i, resource := range found.owns {
		rule := c.rules[i]
		rule.Resource = resource
		p.Children = append(p.Children, rule)
	}
	return &compile.Compiled{Programs: compile.PerNamespace(p, c.namespacesFor(found.resource))}, nil
}

// customizer returns a hook.Customizer that calls the function of Customize. Served are the
// declared kinds, as the API server serves them.
func (c *Composer) customizer(served []object.Resource) hook.Customizer {
	return hook.CustomizerFunc(func(ctx context.Context, req *hook.CustomizeRequest) (*hook.CustomizeResponse, error) {
		relations, err := c.customize(ctx, req.Parent)
		if err != nil {
			return nil, err
		}
		response := &hook.CustomizeResponse{}
		for _, one := range relations {
			rule, err := c.relatedRule(one, served)
			if err != nil {
				return nil, Permanentf("Customize: %w", err)
			}
			response.Related = append(response.Related, rule)
		}
		return response, nil
	})
}

// relatedRule converts a RelatedRule to the hook's, which names kinds by their plural.
func (c *Composer) relatedRule(r RelatedRule, served []object.Resource) (hook.RelatedRule, error) {
	index := func(k kinds.Kind) int {
		return slices.IndexFunc(served, func(resource object.Resource) bool { return resource.GroupKind() == k.Group() })
	}
	k, err := c.app.KindOf(r.Object)
	if err != nil {
		return hook.RelatedRule{}, err
	}
	i := index(k)
	if i < 0 {
		return hook.RelatedRule{}, fmt.Errorf("declare %s in Customize", k)
	}
	if namespaces := (kinds.Kind{APIVersion: "v1", Name: "Namespace"}); r.NamespaceLabels != nil && index(namespaces) < 0 {
		return hook.RelatedRule{}, fmt.Errorf("NamespaceLabels: declare %s in Customize", namespaces)
	}
	return hook.RelatedRule{
		APIVersion: served[i].APIVersion(), Resource: served[i].Plural,
		LabelSelector: r.Labels, NamespaceSelector: r.NamespaceLabels, Namespace: r.Namespace, Names: r.Names,
	}, nil
}
