// Package object holds a Kubernetes object as the JSON bytes that the API server sent, with
// frequently used metadata parsed beside it.
//
// It contains parsing, edits of single fields, references, field paths, digests, labels and the
// description of a served resource. It sends no requests and knows nothing of controllers.
package object

import (
	"bytes"
	"cmp"
	"encoding/json"
	"iter"
	"maps"
	"slices"
	"strconv"
	"strings"
	"unique"
	"unsafe"

	"k8s.io/apimachinery/pkg/runtime/schema"
)

// Object is an immutable Kubernetes object; With returns a changed copy. The zero value is invalid: use Parse.
//
// There may be a hundred thousand objects, so this is small: 128 bytes. Rarely used metadata is read from the JSON.
type Object struct {
	// raw is the JSON. Up to its capacity follow texts that it has only in escaped form, and managedFields if kept.
	raw    []byte
	digest uint64
	intent uint64

	typeName   unique.Handle[typeName]
	version    uint64
	generation int64
	// names are namespace and name, in memory of their own: as map keys they outlive the object's bytes.
	names    string
	owner    ownerRanges
	uid      textRange
	labels   textRange
	nameFrom uint32
	deleted  bool
	managed  bool
}

// textRange is the range of a text in raw, up to its capacity.
type textRange struct{ from, to uint32 }

type ownerRanges struct {
	typeName  unique.Handle[typeName]
	name, uid textRange
}

// Owner is the controlling owner of an object. Its strings keep the whole object in memory.
type Owner struct {
	APIVersion, Kind, Name, UID string
}

// JSON returns the object as compact JSON without metadata.managedFields. Read-only.
func (o *Object) JSON() []byte { return slices.Clip(o.raw) }

// APIVersion returns such as "v1" or "apps/v1".
func (o *Object) APIVersion() string { return o.typeName.Value().apiVersion }

// Kind returns such as "Deployment".
func (o *Object) Kind() string { return o.typeName.Value().kind }

// Namespace returns "" for a cluster-scoped object.
func (o *Object) Namespace() string { return o.names[:o.nameFrom] }

// Name returns metadata.name.
func (o *Object) Name() string { return o.names[o.nameFrom:] }

// UID returns metadata.uid; "" for an object that was never stored. The string keeps the whole object in memory.
func (o *Object) UID() string { return o.textAt(o.uid) }

// Version returns metadata.resourceVersion as an integer, which grows; 0 for an object that was never stored.
func (o *Object) Version() uint64 { return o.version }

// ResourceVersion returns metadata.resourceVersion.
func (o *Object) ResourceVersion() string { return strconv.FormatUint(o.version, 10) }

// Generation returns metadata.generation; 0 for kinds without it.
func (o *Object) Generation() int64 { return o.generation }

// Labels returns metadata.labels.
func (o *Object) Labels() Labels { return Labels{o.textAt(o.labels)} }

// Controller returns the controlling owner, and whether there is one.
func (o *Object) Controller() (owner Owner, owned bool) {
	if o.owner == (ownerRanges{}) {
		return Owner{}, false
	}
	kind := o.owner.typeName.Value()
	return Owner{APIVersion: kind.apiVersion, Kind: kind.kind, Name: o.textAt(o.owner.name), UID: o.textAt(o.owner.uid)}, true
}

// ControlledBy reports whether the controlling owner has the UID.
func (o *Object) ControlledBy(uid string) bool {
	return o.owner != (ownerRanges{}) && o.textAt(o.owner.uid) == uid
}

// textAt returns the text of a range, as a view.
func (o *Object) textAt(p textRange) string {
	if p.from == p.to {
		return ""
	}
	return unsafe.String(&o.raw[:cap(o.raw)][p.from], p.to-p.from) //nolint:gosec // The bytes never change, so a string may share them.
}

// Deleting reports whether metadata.deletionTimestamp is set.
func (o *Object) Deleting() bool { return o.deleted }

// Digest returns a hash of all that a hook sees, without metadata.resourceVersion, stable within this process only.
func (o *Object) Digest() uint64 { return o.digest }

// IntentDigest returns a hash of what users edit: labels, annotations and, by its generation, the spec.
func (o *Object) IntentDigest() uint64 { return o.intent }

// ContentDigest returns a hash of what desired objects can set: for kinds with generations, not the status.
func (o *Object) ContentDigest() uint64 {
	if o.generation > 0 {
		return o.intent
	}
	return o.digest
}

// Size returns the memory of the object's bytes.
func (o *Object) Size() int { return cap(o.raw) }

// Labels are key-value pairs: a view of the object's JSON that is read on each use, since there
// may be a hundred thousand objects with few labels each. It implements labels.Labels.
type Labels struct {
	// text is a JSON object of strings without escapes, so that quotes delimit them.
	text string
}

// Label is a key-value pair.
type Label struct{ Key, Value string }

// All iterates over the pairs. Their strings keep the whole object in memory.
func (l Labels) All() iter.Seq[Label] {
	return func(yield func(Label) bool) {
		for rest := l.text; ; {
			var label Label
			label.Key, rest = nextText(rest)
			label.Value, rest = nextText(rest)
			if rest == "" || !yield(label) {
				return
			}
		}
	}
}

// nextText returns the next string and the rest, which is empty at the end.
func nextText(text string) (string, string) {
	_, text, _ = strings.Cut(text, `"`)
	value, rest, _ := strings.Cut(text, `"`)
	return value, rest
}

// Lookup returns the value of a key and whether it exists.
func (l Labels) Lookup(key string) (string, bool) {
	for label := range l.All() {
		if label.Key == key {
			return label.Value, true
		}
	}
	return "", false
}

// Has reports whether the key exists.
func (l Labels) Has(key string) bool {
	_, found := l.Lookup(key)
	return found
}

// Get returns the value of a key, or "".
func (l Labels) Get(key string) string {
	value, _ := l.Lookup(key)
	return value
}

// plainLabels returns labels without escapes. It omits those that need them, which no selector can match.
func plainLabels(data []byte) []byte {
	var pairs map[string]string
	_ = json.Unmarshal(data, &pairs) // The parser has checked it.
	plain := []byte{'{'}
	for _, key := range slices.Sorted(maps.Keys(pairs)) {
		if pair := key + pairs[key]; !strings.ContainsAny(pair, `"\`) {
			plain = append(append(plain, `"`+key+`":"`+pairs[key]+`"`...), ',')
		}
	}
	return append(bytes.TrimSuffix(plain, []byte(",")), '}')
}

// Sorted are objects of one kind in the order of requests to hooks, that of "namespace/name". Most sets are small.
type Sorted []*Object

// CompareNames orders objects by "namespace/name".
func CompareNames(a, b *Object) int {
	return cmp.Or(compareNamespace(a, b.Namespace()), cmp.Compare(a.Name(), b.Name()))
}

// compareNamespace orders namespaces as if each ended in a slash, so that "team-a" comes before "team".
func compareNamespace(o *Object, b string) int {
	a := o.Namespace()
	n := min(len(a), len(b))
	if order := cmp.Compare(a[:n], b[:n]); order != 0 || len(a) == len(b) {
		return order
	}
	if len(a) < len(b) {
		return cmp.Compare('/', b[n])
	}
	return cmp.Compare(a[n], '/')
}

// Put adds an object, or replaces the one of its name, which it returns.
func (s *Sorted) Put(o *Object) (former *Object) {
	if n := len(*s); n == 0 || CompareNames((*s)[n-1], o) < 0 {
		*s = append(*s, o) // Lists are sorted.
		return nil
	}
	at, found := slices.BinarySearchFunc(*s, o, CompareNames)
	if !found {
		*s = slices.Insert(*s, at, o)
		return nil
	}
	former, (*s)[at] = (*s)[at], o
	return former
}

// Remove removes the object with the name of another one, and returns it; nil if there is none.
func (s *Sorted) Remove(o *Object) (former *Object) {
	at, found := slices.BinarySearchFunc(*s, o, CompareNames)
	if found {
		former = (*s)[at]
		*s = slices.Delete(*s, at, at+1)
	}
	return former
}

// In returns the objects of one namespace, or all if it is empty.
func (s Sorted) In(namespace string) Sorted {
	if namespace == "" {
		return s
	}
	from, _ := slices.BinarySearchFunc(s, namespace, compareNamespace)
	s = s[from:]
	to, _ := slices.BinarySearchFunc(s, namespace, func(o *Object, namespace string) int {
		return cmp.Or(compareNamespace(o, namespace), -1)
	})
	return s[:to]
}

// IsSecret reports whether an object is a Secret. The apiVersion may be missing.
func IsSecret(members map[string]any) bool {
	return members["kind"] == "Secret" && (members["apiVersion"] == "v1" || members["apiVersion"] == nil)
}

// GroupKind is a kind without its version.
type GroupKind struct{ Group, Kind string }

// IsSecret reports whether the kind is that of Secrets.
func (k GroupKind) IsSecret() bool { return k == GroupKind{Kind: "Secret"} }

// IsSecretField reports whether a field of a Secret may hold a value: data, and annotations, where tools keep copies.
func IsSecretField(path string) bool {
	for _, field := range []string{"data", "stringData", "metadata.annotations"} {
		if rest, is := strings.CutPrefix(path, field); is && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return path == "" || path == "metadata"
}

// IsLastApplied reports whether an annotation has a copy of its object's fields, such as that of kubectl.
func IsLastApplied(annotation string) bool { return strings.Contains(annotation, "last-applied") }

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
	return schema.GroupVersion{Group: k.Group, Version: k.Version}.String()
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
func (r Resource) APIVersion() string {
	return schema.GroupVersion{Group: r.Group, Version: r.Version}.String()
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

// IsBuiltInGroup reports whether the Kubernetes API server itself serves a group. Some others end in .k8s.io too.
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
