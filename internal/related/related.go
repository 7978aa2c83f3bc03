// Package related finds the objects that a hook wants to be shown beside a
// parent and its children, and the parents that a change of such an object
// concerns.
//
// Here live the rules of a customize hook, checked and resolved; the watches
// they need, opened when the first parent needs one and closed with the last;
// and the index from an object to the parents whose rules select it, so that an
// event neither walks all parents nor asks a hook. Which hook gave the rules, and
// when it is asked again, is the engine's business.
package related

import (
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
)

// Scope says how far the rules of a customize hook reach.
type Scope struct {
	// Version of the customize hook. In v1 the related objects of a namespaced
	// parent are those of its namespace and the cluster-scoped ones.
	Version hook.Version
	// Namespaced says that the parents live in namespaces.
	Namespaced bool
	// Namespaces are those in which rules select what lives in namespaces; in all if
	// there is none. A rule that names another one is wrong.
	Namespaces []string
}

// ownNamespaceOnly says that rules select in the namespace of the parent alone.
func (s Scope) ownNamespaceOnly() bool { return s.Version == hook.V1 && s.Namespaced }

// includes says whether rules may select in a namespace.
func (s Scope) includes(namespace string) bool {
	return len(s.Namespaces) == 0 || slices.Contains(s.Namespaces, namespace)
}

// perNamespace is a pattern of any namespace as one for each of those that rules select in.
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
