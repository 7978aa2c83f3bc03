package compile

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/setpoint-dev/setpoint/internal/controller/composite"
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
	some := lists.Filter(declared, func(one string) bool { return !env.excludes(one) })
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

func (env *Environment) excludedNotes(field string, namespaces []string) []string {
	var notes []string
	for i, namespace := range namespaces {
		notes = env.excludedNote(notes, index(field, i), namespace)
	}
	return notes
}

// ExemptNamespaces returns the namespaces that a cluster needs to work, and Setpoint's own.
func (env *Environment) ExemptNamespaces() []string {
	all := []string{metav1.NamespaceSystem, "kube-node-lease"}
	if env.PodNamespace != "" && !slices.Contains(all, env.PodNamespace) {
		all = append(all, env.PodNamespace)
	}
	return all
}
