package object

import (
	"cmp"
	"slices"
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
func (k Kind) APIVersion() string { return apiVersion(k.Group, k.Version) }

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
	return strings.TrimSuffix(cmp.Or(k.Plural, strings.ToLower(k.Kind))+"."+k.Group, ".")
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

// Identity returns what all references to an object have in common: group, kind, namespace and name.
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

// Resource is a resource as the API server serves it.
type Resource struct {
	Group, Version string
	// Plural is its name in paths, such as "deployments".
	Plural string
	Kind   string
	// Namespaced reports whether its objects have a namespace.
	Namespaced bool
	// Status reports whether it has a status subresource.
	Status bool
	// Custom reports whether a CustomResourceDefinition defines it.
	Custom bool
	// Unserved means that the API server does not serve it now, but did: there are no such objects.
	Unserved bool
}

// Ref returns the reference of an object of the resource.
func (r Resource) Ref(namespace, name string) Ref {
	return Ref{Kind: KindOf(r), Namespace: namespace, Name: name}
}

// APIVersion returns such as "v1" or "apps/v1".
func (r Resource) APIVersion() string { return apiVersion(r.Group, r.Version) }

func apiVersion(group, version string) string {
	if group == "" {
		return version
	}
	return group + "/" + version
}

// GroupKind returns the kind without its version.
func (r Resource) GroupKind() GroupKind { return GroupKind{Group: r.Group, Kind: r.Kind} }

// GroupResource returns such as "deployments.apps", as kubectl takes it.
func (r Resource) GroupResource() string { return strings.TrimSuffix(r.Plural+"."+r.Group, ".") }

// String returns such as "deployments.apps/v1" or "pods.v1", for messages.
func (r Resource) String() string { return r.Plural + "." + r.APIVersion() }

// Path returns the URL path of a collection, or of an object if name is set.
func (r Resource) Path(namespace, name string) string {
	path := "/api/" + r.Version
	if r.Group != "" {
		path = "/apis/" + r.Group + "/" + r.Version
	}
	if r.Namespaced && namespace != "" {
		path += "/namespaces/" + namespace
	}
	path += "/" + r.Plural
	if name != "" {
		path += "/" + name
	}
	return path
}

// In returns the namespaces of objects of the resource if they are limited to some, or "" for all.
func (r Resource) In(namespaces []string) []string {
	if !r.Namespaced || len(namespaces) == 0 {
		return []string{""}
	}
	return namespaces
}

// GroupKind is a kind without its version.
type GroupKind struct{ Group, Kind string }

// GroupOf returns the group of an apiVersion: "" of "v1", "apps" of "apps/v1".
func GroupOf(apiVersion string) string {
	return apiVersion[:max(strings.IndexByte(apiVersion, '/'), 0)]
}

// GroupKind returns the kind of the object without its version.
func (o *Object) GroupKind() GroupKind {
	name := o.typeName.Value()
	return GroupKind{Group: GroupOf(name.apiVersion), Kind: name.kind}
}

// IsClusterScoped reports whether a built-in kind is cluster-scoped, for when there is no API server to say it.
func IsClusterScoped(kind string) bool {
	return slices.Contains(strings.Fields(`
		CSIDriver CSINode CertificateSigningRequest ClusterRole ClusterRoleBinding ClusterTrustBundle ComponentStatus
		DeviceClass DeviceTaintRule FlowSchema IPAddress IngressClass MutatingAdmissionPolicy MutatingAdmissionPolicyBinding
		MutatingWebhookConfiguration Namespace Node PersistentVolume PriorityClass PriorityLevelConfiguration ResourceSlice
		RuntimeClass ServiceCIDR StorageClass StorageVersionMigration ValidatingAdmissionPolicy
		ValidatingAdmissionPolicyBinding ValidatingWebhookConfiguration VolumeAttachment VolumeAttributesClass`), kind)
}

// IsBuiltInGroup reports whether the Kubernetes API server itself serves a group. Others are those of CRDs and of
// API servers that are aggregated, also some that end in .k8s.io.
func IsBuiltInGroup(group string) bool {
	return group == "" || slices.Contains(strings.Fields(`
		admissionregistration.k8s.io apps authentication.k8s.io authorization.k8s.io autoscaling batch certificates.k8s.io
		coordination.k8s.io discovery.k8s.io events.k8s.io extensions flowcontrol.apiserver.k8s.io internal.apiserver.k8s.io
		lifecycle.k8s.io networking.k8s.io node.k8s.io policy rbac.authorization.k8s.io resource.k8s.io scheduling.k8s.io
		storage.k8s.io storagemigration.k8s.io`), group)
}

// Resources that Setpoint itself reads and writes.
var (
	Events     = Resource{Version: "v1", Plural: "events", Kind: "Event", Namespaced: true}
	Leases     = Resource{Group: "coordination.k8s.io", Version: "v1", Plural: "leases", Kind: "Lease", Namespaced: true}
	Namespaces = Resource{Version: "v1", Plural: "namespaces", Kind: "Namespace"}
	Secrets    = Resource{Version: "v1", Plural: "secrets", Kind: "Secret", Namespaced: true}
	ConfigMaps = Resource{Version: "v1", Plural: "configmaps", Kind: "ConfigMap", Namespaced: true}
	// ServiceAccounts are what controllers may act as.
	ServiceAccounts = Resource{Version: "v1", Plural: "serviceaccounts", Kind: "ServiceAccount", Namespaced: true}
)
