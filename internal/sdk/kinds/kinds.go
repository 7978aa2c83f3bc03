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
	"k8s.io/client-go/kubernetes/scheme"

	"github.com/setpoint-dev/setpoint/internal/object"
	crdschema "github.com/setpoint-dev/setpoint/internal/schema"
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
	// crds have the served versions of each CustomResourceDefinition.
	crds [][]crdschema.Served
	// explicit are the kinds of types that are said.
	explicit map[reflect.Type]Kind
	// cached are resolved kinds by their type.
	cached sync.Map
}

// New returns the kinds of built-in types, of CRDs, and of types that are said.
func New(crds *CRDs, explicit map[reflect.Type]Kind) *Kinds {
	return &Kinds{crds: crds.parsed, explicit: explicit}
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
		if found, _, err := scheme.Scheme.ObjectKinds(o); err == nil {
			return Kind{found[0].GroupVersion().String(), found[0].Kind}, nil
		}
	}
	return k.definedByCRD(t)
}

// definedByCRD returns the kind of the CRD that a type is named after.
func (k *Kinds) definedByCRD(t reflect.Type) (Kind, error) {
	var found []Kind
	for _, versions := range k.crds {
		if versions[0].Kind.Kind == t.Name() {
			found = append(found, Kind{preferred(versions, path.Base(t.PkgPath())).APIVersion(), t.Name()})
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
	parsed [][]crdschema.Served
}

// StatusHas reports whether a CRD defines a member of the status of a kind.
func (k *Kinds) StatusHas(wanted Kind, member string) bool {
	return slices.ContainsFunc(slices.Concat(k.crds...), func(v crdschema.Served) bool {
		_, has := v.Schema.Properties["status"].Properties[member]
		return has && v.Kind.Kind == wanted.Name && v.APIVersion() == wanted.APIVersion
	})
}

// Add adds the definitions of a text.
func (d *CRDs) Add(text []byte) error {
	d.Texts = append(d.Texts, text)
	decoder := yaml.NewYAMLOrJSONDecoder(bytes.NewReader(text), len(text))
	for {
		var one json.RawMessage
		err := decoder.Decode(&one)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err == nil && (len(one) == 0 || string(one) == "null") {
			continue // A document may be empty.
		}
		var versions []crdschema.Served
		if err == nil {
			versions, err = crdschema.OfCRD(one)
		}
		if err != nil {
			return fmt.Errorf("app.InstallCRDs: %w", err)
		}
		d.parsed = append(d.parsed, versions)
	}
}

// preferred returns the wanted version if it is served, or else the storage version.
func preferred(versions []crdschema.Served, wanted string) *crdschema.Served {
	at := slices.IndexFunc(versions, func(v crdschema.Served) bool { return v.Version == wanted })
	if at < 0 {
		at = slices.IndexFunc(versions, func(v crdschema.Served) bool { return v.Stored })
	}
	return &versions[max(at, 0)]
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
	// Programs add their own kinds to the scheme of client-go.
	if o, err := scheme.Scheme.New(gvk); err == nil && object.IsBuiltInGroup(gvk.Group) {
		r.Namespaced, r.Custom = !object.IsClusterScoped(gvk.Kind), false
		_, r.Status = reflect.TypeOf(o).Elem().FieldByName("Status")
		return r
	}
	for _, versions := range k.crds {
		if versions[0].GroupKind() == wanted.Group() {
			r.Plural, r.Namespaced = versions[0].Plural, versions[0].Namespaced
			r.Status = slices.ContainsFunc(versions, func(v crdschema.Served) bool { return v.Version == gvk.Version && v.Status })
		}
	}
	return r
}
