package compile

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"k8s.io/apimachinery/pkg/util/sets"

	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// resolve finds the resources of a controller and returns a program for each kind of parent.
func (s *neutralSpec) resolve(ctx context.Context, env Environment, draft composite.Program) ([]composite.Program, error) {
	programs, err := s.parents(ctx, env, draft)
	if err != nil {
		return nil, err
	}
	rules, err := s.rules(ctx, env, programs)
	if err != nil {
		return nil, err
	}
	for i := range programs {
		programs[i].Children = rules
	}
	return programs, nil
}

// parents returns a program for each kind of target.
func (s *neutralSpec) parents(ctx context.Context, env Environment, draft composite.Program) ([]composite.Program, error) {
	var programs []composite.Program
	for _, t := range s.targets {
		resource, err := resolveUsed(ctx, env, t.resourceRef)
		if err != nil {
			return nil, err
		}
		if resource.Unserved {
			s.unserved = append(s.unserved, resource)
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
		s.notes = append(s.notes, env.excludedNotes(t.field+".namespaces", t.namespaces)...)
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
		return nil, notServed(s.targets[0].resourceRef)
	}
	for i, p := range programs {
		if slices.ContainsFunc(p.Selections, selectsAll) {
			programs[i].Selections = nil
		}
	}
	return programs, nil
}

func (s *neutralSpec) rules(ctx context.Context, env Environment, programs []composite.Program) (plan.Rules, error) {
	var rules plan.Rules
	inNamespaces := !slices.ContainsFunc(programs, func(p composite.Program) bool { return !p.Parent.Namespaced })
	for _, c := range s.children {
		resource, err := resolveUsed(ctx, env, c.resourceRef)
		if err != nil {
			return nil, err
		}
		c.rule.Resource = resource
		before, twice := rules.For(resource.GroupKind())
		switch {
		case twice && before.Same(c.rule) && !before.HasExpressions() && !c.rule.HasExpressions():
			s.notes = append(s.notes, fmt.Sprintf("%s: lists %s once more, with the same settings", c.field, resource))
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

// setConditions turns on Setpoint's conditions if the status holds them.
func (s *neutralSpec) setConditions(ctx context.Context, env Environment, programs []composite.Program) error {
	if !s.conditions {
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
