// Package related finds the related objects that a customize hook selects, and the parents to
// enqueue when one of them changes.
//
// It validates and resolves the rules, shares their watches, which it opens with the first and
// closes with the last rule, and indexes the rules, so that an event neither visits all parents nor
// calls a hook. Package composite calls the customize hook.
package related

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// PollInterval is how often the lists of related objects are looked at outside of runs.
const PollInterval = 20 * time.Millisecond

// Scope limits what the rules of a customize hook may select.
type Scope struct {
	// Version of the customize hook. In v1 the rules of a namespaced parent select only objects in
	// its namespace and cluster-scoped objects.
	Version hook.Version
	// Namespaced means that the parents are namespaced.
	Namespaced bool
	// Namespaces are those of the process, in which rules may select; empty for all. A rule that names another
	// one is invalid. Those of the parents are no limit: what a rule selects is missing without a word
	// otherwise, and a hook that makes children of it would delete them.
	Namespaces []string
}

// NamespacesOf returns the namespaces in which rules of parents in a namespace may select objects of a kind, ""
// for all.
func (s Scope) NamespacesOf(resource object.Resource, parent string) []string {
	switch {
	case !resource.Namespaced:
		return []string{""}
	case s.ownNamespaceOnly():
		return []string{parent}
	case len(s.Namespaces) == 0:
		return []string{""}
	}
	return s.Namespaces
}

// ownNamespaceOnly reports whether rules select only in the namespace of the parent.
func (s Scope) ownNamespaceOnly() bool { return s.Version == hook.V1 && s.Namespaced }

// includes reports whether rules may select in a namespace.
func (s Scope) includes(namespace string) bool {
	return len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, namespace)
}

// perNamespace splits a pattern for all namespaces into one for each allowed namespace.
func (s Scope) perNamespace(p pattern) []pattern {
	if len(s.Namespaces) == 0 || p.namespace != "" || !p.resource.Namespaced {
		return []pattern{p}
	}
	var all []pattern
	for _, p.namespace = range s.Namespaces {
		all = append(all, p)
	}
	return all
}
