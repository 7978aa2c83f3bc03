package workspace

import (
	"cmp"
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
	return k, nil
}

// Defined returns the kinds of CRDs with their schemas.
func (k *Kinds) Defined() []crdschema.Served { return k.defined }

// Assumed returns the names of the kinds that neither a CRD nor Kubernetes has, as far as they were looked up.
func (k *Kinds) Assumed() []string {
	k.mu.Lock()
	defer k.mu.Unlock()
	names := make([]string, len(k.assumed))
	for i, r := range k.assumed {
		names[i] = r.String()
	}
	return names
}

// Resolve implements the field of compile.Environment.
func (k *Kinds) Resolve(_ context.Context, apiVersion, plural string) (object.Resource, error) {
	return k.find(apiVersion, plural, "", func(r object.Resource) bool { return r.Plural == plural })
}

// ResolveKind implements the field of compile.Environment.
func (k *Kinds) ResolveKind(_ context.Context, apiVersion, kind string) (object.Resource, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return object.Resource{}, err
	}
	plural, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind))
	return k.find(apiVersion, plural.Resource, kind, func(r object.Resource) bool { return r.Kind == kind })
}

// Named returns the kind of a CRD or of Kubernetes that is named as PLURAL, or PLURAL.GROUP.
func (k *Kinds) Named(ctx context.Context, word string) (object.Resource, error) {
	plural, group, _ := strings.Cut(word, ".")
	for i := range k.defined {
		if r := k.defined[i].Resource(); r.Plural == plural && (group == "" || r.Group == group) {
			return r, nil
		}
	}
	for _, version := range slices.Concat([]schema.GroupVersion{{Version: "v1"}}, scheme.Scheme.PrioritizedVersionsAllGroups()) {
		if _, _, has := BuiltInType(version, plural); has && (group == "" || version.Group == group) {
			return k.Resolve(ctx, version.String(), plural)
		}
	}
	return object.Resource{}, fmt.Errorf("neither Kubernetes nor a CRD in the files has the kind %q; write PLURAL.GROUP, or add its CRD "+
		"to the files", word)
}

// find returns a kind; kind is empty if it is not known.
func (k *Kinds) find(apiVersion, plural, kind string, is func(object.Resource) bool) (object.Resource, error) {
	version, err := schema.ParseGroupVersion(apiVersion)
	if err != nil {
		return object.Resource{}, err
	}
	for i := range k.defined {
		if r := k.defined[i].Resource(); r.APIVersion() == apiVersion && is(r) {
			return r, nil
		}
	}
	if crds.Resource.APIVersion() == apiVersion && is(crds.Resource) {
		return crds.Resource, nil // No scheme of client-go has them.
	}
	resource := object.Resource{Group: version.Group, Version: version.Version, Plural: plural, Kind: kind, Namespaced: true, Status: true,
		Custom: true}
	if builtIn, goType, has := BuiltInType(version, plural); has {
		resource.Kind, resource.Namespaced, resource.Custom = builtIn, !object.IsClusterScoped(builtIn), false
		_, resource.Status = goType.FieldByName("Status")
		return resource, nil
	}
	if scheme.Scheme.IsVersionRegistered(version) {
		return resource, fmt.Errorf("%s of %s: %w", plural, apiVersion, compile.ErrNotServed)
	}
	resource.Kind = cmp.Or(kind, plural) // A CRD would say it.
	return k.assume(resource, is), nil
}

// assume returns the kind that was assumed first for the same name.
func (k *Kinds) assume(resource object.Resource, is func(object.Resource) bool) object.Resource {
	k.mu.Lock()
	defer k.mu.Unlock()
	i := slices.IndexFunc(k.assumed, func(r object.Resource) bool { return r.APIVersion() == resource.APIVersion() && is(r) })
	if i >= 0 {
		return k.assumed[i]
	}
	k.assumed = append(k.assumed, resource)
	return resource
}

// StatusOf implements the field of compile.Environment by the schemas of the CRDs.
func (k *Kinds) StatusOf(_ context.Context, resource object.Resource) (compile.Status, error) {
	i := slices.IndexFunc(k.definitions, func(o *object.Object) bool { return o.Name() == crds.NameOf(resource) })
	if i < 0 || !resource.Status {
		return compile.Status{}, nil
	}
	return crds.StatusSchema(k.definitions[i], resource.Version)
}

// BuiltInType returns the Go type of a resource of Kubernetes.
func BuiltInType(version schema.GroupVersion, plural string) (kind string, goType reflect.Type, is bool) {
	for kind, goType := range scheme.Scheme.KnownTypes(version) {
		if guess, _ := meta.UnsafeGuessKindToResource(version.WithKind(kind)); guess.Resource == plural {
			return kind, goType, true
		}
	}
	return "", nil, false
}

// All returns the kinds of CRDs and of Kubernetes, as an API server would list them.
func (k *Kinds) All() []served.Kind {
	var all []served.Kind
	for _, version := range slices.Concat([]schema.GroupVersion{{Version: "v1"}}, scheme.Scheme.PrioritizedVersionsAllGroups()) {
		all = append(all, builtInKinds(version)...)
	}
	for _, defined := range k.defined {
		all = append(all, served.Kind{Kind: defined.Kind, Singular: strings.ToLower(defined.Kind.Kind), ShortNames: defined.ShortNames,
			Categories: defined.Categories, Verbs: verbs})
	}
	return all
}

// verbs are what clients may do with objects of all kinds.
var verbs = []string{"create", "delete", "deletecollection", "get", "list", "patch", "update", "watch"}

// builtInKinds returns the kinds of Kubernetes in a version: its Go types that have metadata.
func builtInKinds(version schema.GroupVersion) []served.Kind {
	var all []served.Kind
	for kind, goType := range scheme.Scheme.KnownTypes(version) {
		field, has := goType.FieldByName("ObjectMeta")
		if !has || !field.Anonymous || field.Type.Kind() != reflect.Struct {
			continue
		}
		plural, singular := meta.UnsafeGuessKindToResource(version.WithKind(kind))
		all = append(all, served.Kind{
			Kind: object.Kind{
				Group: version.Group, Version: version.Version, Plural: plural.Resource, Kind: kind,
				Namespaced: !object.IsClusterScoped(kind),
			},
			Singular: singular.Resource, Verbs: verbs,
		})
	}
	slices.SortFunc(all, func(a, b served.Kind) int { return strings.Compare(a.Plural, b.Plural) })
	return all
}
