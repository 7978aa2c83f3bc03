package plan

import "github.com/setpoint-dev/setpoint/internal/object"

var namespaceKind = object.GroupKind{Kind: "Namespace"}

// CreatesNamespace reports whether an action creates a namespace into which others of its plan may
// write.
func (a Action) CreatesNamespace() bool {
	return a.Before == nil && a.Verb != Delete && a.Resource.GroupKind() == namespaceKind
}

// WritesInto reports whether an action creates or changes a child in a namespace.
func (a Action) WritesInto(namespace string) bool {
	return a.Ref.Namespace == namespace && a.Verb != Delete && a.Verb != Release
}
