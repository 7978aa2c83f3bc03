package plan

import "github.com/setpoint-dev/setpoint/internal/object"

var namespaceKind = object.GroupKind{Kind: "Namespace"}

// CreatesNamespace says that an action makes a namespace, which others of its plan may
// write into.
func (a Action) CreatesNamespace() bool {
	return a.Before == nil && a.Verb != Delete && a.Resource.GroupKind() == namespaceKind
}

// WritesInto says that an action writes a child of a namespace. What is deleted or let
// go there was made there.
func (a Action) WritesInto(namespace string) bool {
	return a.Ref.Namespace == namespace && a.Verb != Delete && a.Verb != Release
}
