// Package kinds finds the kinds of objects of Go types: from the objects, from the built-in types of Kubernetes, and from
// CustomResourceDefinitions.
package kinds

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path"
	"reflect"
	"slices"
	"sync"

	"k8s.io/apimachinery/pkg/api/meta"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Kind is a kind of object in one version.
type Kind struct{ APIVersion, Name string }

func (k Kind) String() string { return k.Name + " of " + k.APIVersion }

// Group returns the kind in any version.
func (k Kind) Group() object.GroupKind {
	return object.GroupKind{Group: object.GroupOf(k.APIVersion), Kind: k.Name}
}

// Kinds resolves the kinds of Go types.
type Kinds struct {
	scheme *runtime.Scheme
	crds   []crdDefinition
	// explicit are the kinds of types that are said.
	explicit map[reflect.Type]Kind
	// cached are resolved kinds by their type.
	cached sync.Map
}

// New returns the kinds of built-in types, of CRDs, and of types that are said.
func New(crds *CRDs, explicit map[reflect.Type]Kind) (*Kinds, error) {
	scheme, err := builtInScheme()
	return &Kinds{scheme: scheme, crds: crds.parsed, explicit: explicit}, err
}

// IsAny reports whether objects of a type can be of any kind.
func IsAny(t reflect.Type) bool {
	return t == reflect.TypeFor[unstructured.Unstructured]() || t.Kind() == reflect.Map
}

// Of returns the kind of an object, from the object itself or from its type.
func (k *Kinds) Of(o any) (Kind, error) {
	if typed, ok := o.(interface{ GetObjectKind() schema.ObjectKind }); ok && !isNil(o) {
		if said := typed.GetObjectKind().GroupVersionKind(); said.Version != "" && said.Kind != "" {
			return Kind{said.GroupVersion().String(), said.Kind}, nil
		}
		return k.OfType(reflect.TypeOf(o))
	}
	var said struct{ APIVersion, Kind string }
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &said)
	}
	if err == nil && said.APIVersion != "" && said.Kind != "" {
		return Kind{said.APIVersion, said.Kind}, nil
	}
	return k.OfType(reflect.TypeOf(o))
}

func isNil(o any) bool {
	v := reflect.ValueOf(o)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// OfType returns the kind of a Go type.
func (k *Kinds) OfType(t reflect.Type) (Kind, error) {
	if t == nil {
		return Kind{}, errors.New("nil has no kind")
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if said, ok := k.explicit[t]; ok {
		return said, nil
	}
	if known, ok := k.cached.Load(t); ok {
		return known.(Kind), nil //nolint:forcetypeassert // Nothing else is stored.
	}
	found, err := k.registered(t)
	if err == nil {
		k.cached.Store(t, found)
	}
	return found, err
}

// registered returns the kind of a type in the scheme of Kubernetes, or in a CRD.
func (k *Kinds) registered(t reflect.Type) (Kind, error) {
	if o, ok := reflect.TypeAssert[runtime.Object](reflect.New(t)); ok {
		if found, _, err := k.scheme.ObjectKinds(o); err == nil {
			return Kind{found[0].GroupVersion().String(), found[0].Kind}, nil
		}
	}
	return k.definedByCRD(t)
}

// definedByCRD returns the kind of the CRD that a type is named after.
func (k *Kinds) definedByCRD(t reflect.Type) (Kind, error) {
	var found []Kind
	for _, d := range k.crds {
		if t.Name() != "" && d.Spec.Names.Kind == t.Name() {
			found = append(found, Kind{d.Spec.Group + "/" + d.servedVersion(path.Base(t.PkgPath())), t.Name()})
		}
	}
	switch len(found) {
	case 0:
		return Kind{}, fmt.Errorf("unknown kind of %s: set its apiVersion and kind, use setpoint.Kind(apiVersion, kind), "+
			"or install a CustomResourceDefinition of kind %s with app.InstallCRDs", t, t.Name())
	case 1:
		return found[0], nil
	}
	return Kind{}, fmt.Errorf("%s may be %s or %s: use setpoint.Kind(apiVersion, kind)", t, found[0], found[1])
}

// CRDs are CustomResourceDefinitions.
type CRDs struct {
	// Texts are YAML or JSON.
	Texts  [][]byte
	parsed []crdDefinition
}

// crdDefinition is the part of a CustomResourceDefinition that the SDK reads.
type crdDefinition struct {
	Kind string
	Spec struct {
		Group    string
		Scope    string
		Names    struct{ Kind, Plural string }
		Versions []crdVersion
	}
}

type crdVersion struct {
	Name            string
	Served, Storage bool
	Subresources    struct{ Status *struct{} }
	Schema          struct{ OpenAPIV3Schema schemaProperties }
}

// schemaProperties are the properties of a schema.
type schemaProperties struct{ Properties map[string]schemaProperties }

// has reports whether there is a property at a path.
func (s schemaProperties) has(path ...string) bool {
	for _, name := range path {
		inner, there := s.Properties[name]
		if !there {
			return false
		}
		s = inner
	}
	return true
}

// StatusHas reports whether a CRD defines a member of the status of a kind.
func (k *Kinds) StatusHas(wanted Kind, member string) bool {
	return slices.ContainsFunc(k.crds, func(d crdDefinition) bool {
		return d.Spec.Names.Kind == wanted.Name && slices.ContainsFunc(d.Spec.Versions, func(v crdVersion) bool {
			return d.Spec.Group+"/"+v.Name == wanted.APIVersion && v.Schema.OpenAPIV3Schema.has("status", member)
		})
	})
}

// Add adds the definitions of a text.
func (d *CRDs) Add(text []byte) error {
	d.Texts = append(d.Texts, text)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		var one crdDefinition
		err := decoder.Decode(&one)
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("app.InstallCRDs: %w", err)
		case one.Kind == "":
			// A document may be empty.
		case one.Kind != "CustomResourceDefinition":
			return fmt.Errorf("app.InstallCRDs: requires CustomResourceDefinitions, not a %s", one.Kind)
		default:
			d.parsed = append(d.parsed, one)
		}
	}
}

// servedVersion returns the preferred version if it is served, or else the storage
// version.
func (d *crdDefinition) servedVersion(wanted string) string {
	stored := ""
	for _, v := range d.Spec.Versions {
		if v.Served && v.Name == wanted {
			return wanted
		}
		if v.Storage {
			stored = v.Name
		}
	}
	return stored
}

// Contains reports whether a list has a kind in any version.
func Contains(list []Kind, k Kind) bool {
	return slices.ContainsFunc(list, func(one Kind) bool { return one.Group() == k.Group() })
}

// Resource returns a kind as an API server would serve it: exactly for CRDs
// and built-in kinds, by convention for others.
func (k *Kinds) Resource(wanted Kind) object.Resource {
	gvk := schema.FromAPIVersionAndKind(wanted.APIVersion, wanted.Name)
	guess, _ := meta.UnsafeGuessKindToResource(gvk)
	r := object.Resource{Group: gvk.Group, Version: gvk.Version, Kind: gvk.Kind, Plural: guess.Resource, Namespaced: true, Status: true,
		Custom: true}
	if o, err := k.scheme.New(gvk); err == nil {
		r.Namespaced, r.Custom = !object.IsClusterScoped(gvk.Kind), false
		_, r.Status = reflect.TypeOf(o).Elem().FieldByName("Status")
		return r
	}
	for _, d := range k.crds {
		if d.Spec.Group == gvk.Group && d.Spec.Names.Kind == gvk.Kind {
			r.Plural, r.Namespaced = d.Spec.Names.Plural, d.Spec.Scope != "Cluster"
			r.Status = slices.ContainsFunc(d.Spec.Versions, func(v crdVersion) bool {
				return v.Name == gvk.Version &&
					v.Subresources.Status != nil
			})
		}
	}
	return r
}
