// Package related finds the related objects that a customize hook selects, and the parents to
// enqueue when one of them changes.
//
// It validates and resolves the rules, shares their watches, which it opens with the first and
// closes with the last rule, and indexes the rules, so that an event neither visits all parents nor
// calls a hook. Package compose calls the customize hook.
package related

import (
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
)

// Scope limits what the rules of a customize hook may select. Its namespaces are those of the whole
// program.
type Scope struct {
	// Version of the customize hook. In v1 the rules of a namespaced parent select only objects in
	// its namespace and cluster-scoped objects.
	Version hook.Version
	// Namespaced means that the parents are namespaced.
	Namespaced bool
	// Namespaces are those in which rules may select; empty for all. A rule that names another one
	// is invalid.
	Namespaces []string
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
