package compile

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/sets"

	setpoint "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// resolve finds the resources of a controller and returns a program for each kind of parent.
func (d *declared) resolve(ctx context.Context, env Environment, draft composite.Program) ([]composite.Program, error) {
	programs, err := d.parents(ctx, env, draft)
	if err != nil {
		return nil, err
	}
	rules, err := d.rules(ctx, env, programs)
	if err != nil {
		return nil, err
	}
	for i := range programs {
		programs[i].Children = rules
	}
	return programs, nil
}

// parents returns a program for each kind of target.
func (d *declared) parents(ctx context.Context, env Environment, draft composite.Program) ([]composite.Program, error) {
	var programs []composite.Program
	for _, t := range d.targets {
		resource, err := resolveUsed(ctx, env, t.resourceRef)
		if err != nil {
			return nil, err
		}
		if resource.Unserved {
			d.unserved = append(d.unserved, resource)
			continue
		}
		selection, err := t.selection()
		if err != nil {
			return nil, err
		}
		namespaces, err := env.limit(t.field+".namespaces", t.namespaces, resource)
		if err != nil {
			return nil, err
		}
		d.notes = append(d.notes, env.excludedNotes(t.field+".namespaces", t.namespaces)...)
		i := slices.IndexFunc(programs, func(p composite.Program) bool { return p.Parent.GroupKind() == resource.GroupKind() })
		if i < 0 {
			draft.Parent, draft.Namespaces = resource, namespaces
			draft.Scope.Namespaced, draft.Scope.Namespaces = resource.Namespaced, env.Namespaces
			i, programs = len(programs), append(programs, draft)
		}
		p := &programs[i]
		if p.Parent != resource {
			return nil, invalid("%s: %s are listed before as %s; use one version of a kind", t.field, resource, p.Parent)
		}
		if !sets.New(p.Namespaces...).Equal(sets.New(namespaces...)) {
			return nil, invalid("%s.namespaces: %s are listed before with other namespaces", t.field, resource)
		}
		p.Selections = append(p.Selections, selection)
		p.SyncOnStatusChange = p.SyncOnStatusChange || t.syncOnStatusChange
	}
	if len(programs) == 0 {
		return nil, notServed(d.targets[0].resourceRef)
	}
	for i, p := range programs {
		if slices.ContainsFunc(p.Selections, selectsAll) {
			programs[i].Selections = nil
		}
	}
	return programs, nil
}

func selectsAll(s composite.Selection) bool { return s.Labels == nil && s.Annotations == nil }

// rules returns the rules for the children of all parents.
func (d *declared) rules(ctx context.Context, env Environment, programs []composite.Program) (plan.Rules, error) {
	var rules plan.Rules
	inNamespaces := !slices.ContainsFunc(programs, func(p composite.Program) bool { return !p.Parent.Namespaced })
	for _, c := range d.children {
		resource, err := resolveUsed(ctx, env, c.resourceRef)
		if err != nil {
			return nil, err
		}
		c.rule.Resource = resource
		before, twice := rules.For(resource.GroupKind())
		switch {
		case twice && before.Same(c.rule) && !before.HasExpressions() && !c.rule.HasExpressions():
			d.notes = append(d.notes, fmt.Sprintf("%s: lists %s once more, with the same settings", c.field, resource))
			continue
		case twice:
			return nil, invalid("%s: the kind %s is listed before with other settings; a kind has one rule", c.field, resource.Kind)
		}
		if !resource.Namespaced && inNamespaces {
			return nil, invalid("%s: %s are cluster-scoped and cannot belong to the namespaced %s", c.field, resource, programs[0].Parent)
		}
		rules = append(rules, c.rule)
	}
	// Their order in the spec does not matter.
	slices.SortFunc(rules, func(a, b plan.Rule) int {
		return cmp.Or(cmp.Compare(a.Resource.Group, b.Resource.Group), cmp.Compare(a.Resource.Kind, b.Resource.Kind))
	})
	return rules, nil
}

func resolveResource(ctx context.Context, env Environment, name resourceRef) (object.Resource, error) {
	resource, err := env.Resolve(ctx, name.apiVersion, name.plural)
	if errors.Is(err, ErrNotServed) {
		return resource, notServed(name)
	}
	if err != nil {
		return resource, fmt.Errorf("%s: look up %s of %s: %w", name.field, name.plural, name.apiVersion, err)
	}
	return resource, nil
}

func notServed(name resourceRef) error {
	return refuse(setpoint.ReasonResourceNotFound,
		"%s: %s of %s: %w; the controller starts when it is served", name.field, name.plural, name.apiVersion, ErrNotServed)
}

// resolveUsed is resolveResource for a kind that the controller can do without once it has run with it: deletion
// and the other kinds must not wait until it is served again.
func resolveUsed(ctx context.Context, env Environment, name resourceRef) (object.Resource, error) {
	resource, err := resolveResource(ctx, env, name)
	if known, was := env.Unserved(err, name.apiVersion, name.plural); was {
		return known, nil
	}
	return resource, err
}

// Unserved returns the kind that was served before the error of Resolve or ResolveKind, and whether there is one.
func (env *Environment) Unserved(err error, apiVersion, name string) (known object.Resource, was bool) {
	if env.Known == nil || !errors.Is(err, ErrNotServed) {
		return known, false
	}
	known, was = env.Known(apiVersion, name)
	known.Unserved = true
	return known, was
}

// SetUnserved finds the kinds that are not served any more, and marks a controller that runs without them as
// incomplete.
func (c *Compiled) SetUnserved() {
	_, written, read := c.Resources()
	all := slices.DeleteFunc(slices.Concat(written, read), func(r object.Resource) bool { return !r.Unserved })
	all = append(all, c.Unserved...)
	slices.SortFunc(all, func(a, b object.Resource) int { return cmp.Compare(a.String(), b.String()) })
	if c.Unserved = slices.Compact(all); len(all) == 0 {
		return
	}
	names := lists.Map(c.Unserved, object.Resource.String)
	c.Incomplete = &Refusal{Reason: setpoint.ReasonResourceNotFound, Err: fmt.Errorf(
		"%s: %w any more; the controller goes on without such objects until they are served again",
		strings.Join(names, ", "), ErrNotServed)}
}

// selection parses the selectors of a target. An empty selector counts as none.
func (t *target) selection() (composite.Selection, error) {
	var s composite.Selection
	if t.labels != nil {
		selector, err := metav1.LabelSelectorAsSelector(t.labels)
		if err != nil {
			return s, invalid("%s.labelSelector: %w", t.field, err)
		}
		s.Labels = unlessEmpty(selector)
	}
	if t.annotations != nil {
		selector, err := annotationSelector(t.annotations)
		if err != nil {
			return s, invalid("%s.annotationSelector: %w", t.field, err)
		}
		s.Annotations = unlessEmpty(selector)
	}
	return s, nil
}

func unlessEmpty(s labels.Selector) labels.Selector {
	if s.Empty() {
		return nil
	}
	return s
}

// annotationSelector parses a selector. It allows any annotation value, not only valid label
// values.
func annotationSelector(a *setpoint.AnnotationSelector) (labels.Selector, error) {
	rest, err := metav1.LabelSelectorAsSelector(&metav1.LabelSelector{MatchExpressions: a.MatchExpressions})
	if err != nil {
		return nil, err
	}
	requirements, _ := rest.Requirements()
	return labels.SelectorFromValidatedSet(a.MatchAnnotations).Add(requirements...), nil
}

// setConditions turns on Setpoint's conditions if the status holds them.
func (d *declared) setConditions(ctx context.Context, env Environment, programs []composite.Program) error {
	if !d.conditions {
		return nil
	}
	for i := range programs {
		hasConditions, err := env.Conditions(ctx, programs[i].Parent)
		if err != nil {
			return err
		}
		programs[i].Conditions = hasConditions
	}
	return nil
}

// Conditions reports whether the status of a kind of parents holds conditions; false if unknown.
func (env *Environment) Conditions(ctx context.Context, resource object.Resource) (bool, error) {
	if env.StatusOf == nil || !resource.Custom || !resource.Status {
		return false, nil
	}
	status, err := env.StatusOf(ctx, resource)
	return status.Conditions || status.Untyped, err
}
