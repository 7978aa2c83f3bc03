package compile

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	api "github.com/setpoint-dev/setpoint/api/v1alpha1"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/controller/handler"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// PerNamespace returns a copy of a program for each of some namespaces, which share its workers.
// The program of a cluster-scoped parent stays one: its children are limited to the namespaces. No
// namespaces mean all.
func PerNamespace(p composite.Program, namespaces []string) []composite.Program {
	if p.Namespaces = namespaces; len(namespaces) == 0 || !p.Parent.Namespaced {
		return []composite.Program{p}
	}
	p.Workers = (p.Workers + len(namespaces) - 1) / len(namespaces)
	var all []composite.Program
	for _, p.Namespace = range namespaces {
		all = append(all, p)
	}
	return all
}

// InNamespaces adds namespaces, by name, to the namespace selector of a webhook.
func InNamespaces(selector *metav1.LabelSelector, namespaces []string) *metav1.LabelSelector {
	limited := selector.DeepCopy()
	if limited == nil {
		limited = &metav1.LabelSelector{}
	}
	limited.MatchExpressions = append(limited.MatchExpressions, metav1.LabelSelectorRequirement{
		Key: corev1.LabelMetadataName, Operator: metav1.LabelSelectorOpIn, Values: namespaces,
	})
	return limited
}

// OnlyExempt reports whether a webhook that is limited to namespaces would review nothing, since
// it exempts all of them.
func OnlyExempt(namespaces, exempt []string) bool {
	return len(namespaces) > 0 && !slices.ContainsFunc(namespaces, func(one string) bool { return !slices.Contains(exempt, one) })
}

// limit returns the namespaces in a spec that are also those of the environment.
func (env *Environment) limit(field string, declared []string, of object.Resource) ([]string, error) {
	switch {
	case len(declared) > 0 && !of.Namespaced:
		return nil, invalid("%s: %s are cluster-scoped; leave it out", field, of)
	case len(declared) == 0:
		return env.Namespaces, nil
	}
	some := slices.DeleteFunc(slices.Clone(declared), env.excludes)
	if len(some) == 0 {
		return nil, invalid("%s: Setpoint runs with --namespaces=%s, which has none of them", field, strings.Join(env.Namespaces, ","))
	}
	return some, nil
}

// excludes reports whether Setpoint is limited to other namespaces.
func (env *Environment) excludes(namespace string) bool {
	return namespace != "" && len(env.Namespaces) > 0 && !slices.Contains(env.Namespaces, namespace)
}

// excludedNote says that Setpoint is not limited to a namespace in a spec.
func (env *Environment) excludedNote(notes []string, field, namespace string) []string {
	if !env.excludes(namespace) {
		return notes
	}
	return append(notes, fmt.Sprintf("%s: Setpoint runs with --namespaces=%s and does nothing in %s",
		field, strings.Join(env.Namespaces, ","), namespace))
}

// excludedNotes is excludedNote for a list.
func (env *Environment) excludedNotes(field string, namespaces []string) []string {
	var notes []string
	for i, namespace := range namespaces {
		notes = env.excludedNote(notes, index(field, i), namespace)
	}
	return notes
}

// handlerNotes names the namespaces in a spec that Setpoint is not limited to.
func (env *Environment) handlerNotes(spec *api.HandlerControllerSpec) []string {
	var notes []string
	for field, handled := range handledBy(spec) {
		notes = append(notes, env.excludedNotes(field+".namespaces", handled.Namespaces)...)
	}
	for i, permission := range spec.Permissions {
		notes = env.excludedNote(notes, index("spec.permissions", i)+".namespace", permission.Namespace)
	}
	return notes
}

// Namespaces returns the namespaces that the programs are limited to; none mean all.
func (c *Compiled) Namespaces() []string {
	all := slices.Concat(
		lists.FlatMap(c.Programs, func(p composite.Program) []string { return p.Namespaces }),
		lists.FlatMap(c.Handlers, func(p handler.Program) []string { return p.Namespaces }))
	slices.Sort(all)
	return slices.Compact(all)
}

// Exclude excludes some of the namespaces that the programs are limited to, and returns those that
// are left. It does nothing and returns none if no program would be left, or if the programs are
// not limited to the excluded ones: then they do not run without them.
func (c *Compiled) Exclude(excluded []string) (left []string) {
	all := c.Namespaces()
	keep := func(names []string) []string {
		return slices.DeleteFunc(slices.Clone(names), func(one string) bool { return slices.Contains(excluded, one) })
	}
	if left = keep(all); len(left)+len(excluded) != len(all) || len(left) == 0 {
		return nil
	}
	c.Programs = slices.DeleteFunc(slices.Clone(c.Programs), func(p composite.Program) bool {
		return slices.Contains(excluded,
			p.Namespace)
	})
	for i := range c.Programs {
		c.Programs[i].Namespaces = keep(c.Programs[i].Namespaces)
	}
	for i := range c.Handlers {
		c.Handlers[i].Namespaces = keep(c.Handlers[i].Namespaces)
	}
	c.Excluded = append(c.Excluded, excluded...)
	return left
}
