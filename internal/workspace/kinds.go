package workspace

import (
	"context"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/manager/crds"
	"github.com/setpoint-dev/setpoint/internal/object"
	crdschema "github.com/setpoint-dev/setpoint/internal/schema"
	"github.com/setpoint-dev/setpoint/internal/served"
)

// Kinds finds kinds without a cluster: those of CRDs in files, and those of Kubernetes by their Go types. It
// assumes that kinds of other groups are namespaced. It is safe for concurrent use.
type Kinds struct {
	definitions []*object.Object
	defined     []crdschema.Served
	// known are those that are not assumed.
	known []object.Resource

	mu      sync.Mutex
	assumed []object.Resource
}

// NewKinds returns the kinds of the CRDs among objects, and of Kubernetes.
func NewKinds(objects []*object.Object) (*Kinds, error) {
	k := &Kinds{}
	for _, o := range objects {
		if o.Kind() != crds.Resource.Kind {
			continue
		}
		served, err := crdschema.OfCRD(o.JSON())
		if err != nil {
			return nil, fmt.Errorf("%s/%s: %w", o.Kind(), o.Name(), err)
		}
		k.definitions, k.defined = append(k.definitions, o), append(k.defined, served...)
	}
	k.known = lists.Map(k.defined, func(s crdschema.Served) object.Resource { return s.Resource() })
	k.known = append(k.known, crds.Resource) // No scheme of client-go has it.
	k.known = append(k.known, lists.Map(builtIn(), (*BuiltIn).resource)...)
	return k, nil
}

// Defined returns the kinds of CRDs with their schemas.
func (k *Kinds) Defined() []crdschema.Served { return k.defined }

// Assumed returns the names of the kinds that neither a CRD nor Kubernetes has, as far as they were looked up.
func (k *Kinds) Assumed() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	return lists.Map(k.assumed, object.Resource.String)
}

// Notes says which kinds were assumed, if there are any.
func (k *Kinds) Notes() []string {
	assumed := k.Assumed()
	if len(assumed) == 0 {
		return nil
	}
	return []string{"no CRD in the files, assumed to be namespaced: " + strings.Join(assumed, ", ") + "; add it to be sure"}
}

// Resolve implements the field of compile.Environment.
func (k *Kinds) Resolve(_ context.Context, apiVersion, plural string) (object.Resource, error) {
	// Only a CRD would say its kind.
	return k.find(apiVersion, plural, plural, func(r object.Resource) bool { return r.Plural == plural })
}

// ResolveKind implements the field of compile.Environment.
func (k *Kinds) ResolveKind(_ context.Context, apiVersion, kind string) (object.Resource, error) {
	plural, _ := meta.UnsafeGuessKindToResource(schema.FromAPIVersionAndKind(apiVersion, kind))
	return k.find(apiVersion, plural.Resource, kind, func(r object.Resource) bool { return r.Kind == kind })
}

// Named returns the kind of a CRD or of Kubernetes that is named as PLURAL, or PLURAL.GROUP.
func (k *Kinds) Named(word string) (object.Resource, error) {
	plural, group, _ := strings.Cut(word, ".")
	for _, r := range k.known {
		if r.Plural == plural && (group == "" || r.Group == group) {
			return r, nil
		}
	}
	return object.Resource{}, fmt.Errorf("neither Kubernetes nor a CRD in the files has the kind %q; write PLURAL.GROUP, or add its CRD "+
		"to the files", word)
}

// find returns a kind; the plural and the kind are what to assume if it is not known.
func (k *Kinds) find(apiVersion, plural, kind string, is func(object.Resource) bool) (object.Resource, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return object.Resource{}, err
	}
	isMeant := func(r object.Resource) bool { return r.APIVersion() == apiVersion && is(r) }
	if i := slices.IndexFunc(k.known, isMeant); i >= 0 {
		return k.known[i], nil
	}
	if scheme.Scheme.IsVersionRegistered(version) {
		return object.Resource{}, fmt.Errorf("%s of %s: %w", plural, apiVersion, compile.ErrNotServed)
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if i := slices.IndexFunc(k.assumed, isMeant); i >= 0 {
		return k.assumed[i], nil // It was assumed first for the same name.
	}
	assumed := object.Resource{Group: version.Group, Version: version.Version, Plural: plural, Kind: kind, Namespaced: true,
		Status: true, Custom: true}
	k.assumed = append(k.assumed, assumed)
	return assumed, nil
}

// StatusOf implements the field of compile.Environment by the schemas of the CRDs.
func (k *Kinds) StatusOf(_ context.Context, resource object.Resource) (compile.Status, error) {
	i := slices.IndexFunc(k.definitions, func(o *object.Object) bool { return o.Name() == crds.NameOf(resource) })
	if i < 0 || !resource.Status {
		return compile.Status{}, nil
	}
	return crds.StatusSchema(k.definitions[i], resource.Version)
}

// BuiltIn is a kind of Kubernetes in a version, and its Go type.
type BuiltIn struct {
	served.Kind

	Type reflect.Type
}

func (b *BuiltIn) resource() object.Resource {
	_, status := b.Type.FieldByName("Status")
	return object.Resource{Group: b.Group, Version: b.Version, Plural: b.Plural, Kind: b.Kind.Kind.Kind, Namespaced: b.Namespaced,
		Status: status}
}

// FindBuiltIn returns a kind of Kubernetes; nil if there is none.
func FindBuiltIn(apiVersion, plural string) *BuiltIn {
	for _, kind := range builtIn() {
		if kind.Plural == plural && kind.APIVersion() == apiVersion {
			return kind
		}
	}
	return nil
}

// builtIn returns the kinds of Kubernetes, those of the core group first.
//
//nolint:gochecknoglobals // They are constant.
var builtIn = sync.OnceValue(func() (all []*BuiltIn) {
	for _, version := range slices.Concat([]schema.GroupVersion{{Version: "v1"}}, scheme.Scheme.PrioritizedVersionsAllGroups()) {
		all = append(all, builtInKinds(version)...)
	}
	return all
})

// builtInKinds returns the kinds of Kubernetes in a version: its Go types that have metadata.
func builtInKinds(version schema.GroupVersion) (all []*BuiltIn) {
	for kind, goType := range scheme.Scheme.KnownTypes(version) {
		field, has := goType.FieldByName("ObjectMeta")
		if !has || !field.Anonymous || field.Type.Kind() != reflect.Struct {
			continue
		}
		plural, singular := meta.UnsafeGuessKindToResource(version.WithKind(kind))
		known := object.Kind{Group: version.Group, Version: version.Version, Plural: plural.Resource, Kind: kind,
			Namespaced: !object.IsClusterScoped(kind)}
		all = append(all, &BuiltIn{served.Kind{Kind: known, Singular: singular.Resource, Verbs: verbs}, goType})
	}
	slices.SortFunc(all, func(a, b *BuiltIn) int { return strings.Compare(a.Plural, b.Plural) })
	return all
}

// All returns the kinds of CRDs and of Kubernetes, as an API server would list them.
func (k *Kinds) All() []served.Kind {
	all := lists.Map(builtIn(), func(b *BuiltIn) served.Kind { return b.Kind })
	for _, defined := range k.defined {
		all = append(all, served.Kind{Kind: defined.Kind, Singular: strings.ToLower(defined.Kind.Kind), ShortNames: defined.ShortNames,
			Categories: defined.Categories, Verbs: verbs})
	}
	return all
}

// verbs are what clients may do with objects of all kinds.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}
