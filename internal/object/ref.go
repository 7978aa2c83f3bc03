package object

import (
	"cmp"
	"strings"
)

// Kind is a kind of objects. The plural may be empty, and the version where it does not matter.
type Kind struct {
	Group      string `json:"group,omitempty"`
	Version    string `json:"version"`
	Plural     string `json:"plural,omitempty"`
	Kind       string `json:"kind"`
	Namespaced bool   `json:"namespaced,omitempty"`
}

// NewKind returns the kind of an apiVersion such as "v1" or "apps/v1".
func NewKind(apiVersion, kind string) Kind {
	group := GroupOf(apiVersion)
	return Kind{Group: group, Version: strings.TrimPrefix(apiVersion, group+"/"), Kind: kind}
}

// KindOf returns the kind of a resource.
func KindOf(r Resource) Kind {
	return Kind{Group: r.Group, Version: r.Version, Plural: r.Plural, Kind: r.Kind, Namespaced: r.Namespaced}
}

// APIVersion returns such as "v1" or "apps/v1".
func (k Kind) APIVersion() string {
	return Resource{Group: k.Group, Version: k.Version}.APIVersion()
}

// GroupKind returns the kind without its version.
func (k Kind) GroupKind() GroupKind { return GroupKind{Group: k.Group, Kind: k.Kind} }

// Within returns the namespace of an object of the kind, which is empty unless the kind is namespaced.
func (k Kind) Within(namespace string) string {
	if !k.Namespaced {
		return ""
	}
	return namespace
}

// Resource returns the full name of a kind for arguments and URLs: "plural.group". If the
// plural is unknown it uses the kind in lower case, which kubectl accepts too.
func (k Kind) Resource() string {
	name := cmp.Or(k.Plural, strings.ToLower(k.Kind))
	if k.Group != "" {
		name += "." + k.Group
	}
	return name
}

// Ref identifies an object. The UID may be empty, and of the kind what Kind says.
type Ref struct {
	Kind
	Namespace string `json:"namespace,omitempty"`
	Name      string `json:"name"`
	UID       string `json:"uid,omitempty"`
}

// Ref returns a reference without plural and UID. Its strings do not keep the object in memory.
func (o *Object) Ref() Ref {
	kind := NewKind(o.APIVersion(), o.Kind())
	kind.Namespaced = o.Namespace() != ""
	return Ref{Kind: kind, Namespace: o.Namespace(), Name: o.Name()}
}

// Ref returns the reference of an object of the resource.
func (r Resource) Ref(namespace, name string) Ref {
	return Ref{Kind: KindOf(r), Namespace: namespace, Name: name}
}

// Identity returns what all references to an object have in common: group, kind, namespace and
// name.
func (r Ref) Identity() Ref {
	return Ref{Kind: Kind{Group: r.Group, Kind: r.Kind.Kind}, Namespace: r.Namespace, Name: r.Name}
}

// String is "ConfigMap default/settings", or "Namespace kube-system".
func (r Ref) String() string {
	if r.Namespace == "" {
		return r.Kind.Kind + " " + r.Name
	}
	return r.Kind.Kind + " " + r.Namespace + "/" + r.Name
}
