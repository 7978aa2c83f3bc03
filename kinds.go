package setpoint

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

	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/yaml"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// kind is a kind of object in one version.
type kind struct{ apiVersion, kind string }

func (k kind) String() string { return k.kind + " of " + k.apiVersion }

func (k kind) group() object.GroupKind {
	return object.GroupKind{Group: object.GroupOf(k.apiVersion), Kind: k.kind}
}

// kinds resolves the kinds of Go types.
type kinds struct {
	scheme *runtime.Scheme
	crds   []crdDefinition
	// explicit are the kinds of the option Kind.
	explicit map[reflect.Type]kind
	// cached are resolved kinds by their type.
	cached sync.Map
}

func newKinds(crds []crdDefinition, controllers []*controller) (*kinds, error) {
	scheme, err := builtInScheme()
	k := &kinds{scheme: scheme, crds: crds, explicit: map[reflect.Type]kind{}}
	for _, c := range controllers {
		if c.kind != (kind{}) && !anyKind(c.goType) {
			k.explicit[c.goType] = c.kind
		}
	}
	return k, err
}

// anyKind reports whether objects of a type can be of any kind.
func anyKind(t reflect.Type) bool {
	return t == reflect.TypeFor[Unstructured]() || t.Kind() == reflect.Map
}

// of returns the kind of an object, from the object itself or from its type.
func (k *kinds) of(o any) (kind, error) {
	if typed, ok := o.(interface{ GetObjectKind() schema.ObjectKind }); ok && !isNil(o) {
		if said := typed.GetObjectKind().GroupVersionKind(); said.Version != "" && said.Kind != "" {
			return kind{said.GroupVersion().String(), said.Kind}, nil
		}
		return k.ofType(reflect.TypeOf(o))
	}
	var said struct{ APIVersion, Kind string }
	data, err := json.Marshal(o)
	if err == nil {
		err = json.Unmarshal(data, &said)
	}
	if err == nil && said.APIVersion != "" && said.Kind != "" {
		return kind{said.APIVersion, said.Kind}, nil
	}
	return k.ofType(reflect.TypeOf(o))
}

func isNil(o any) bool {
	v := reflect.ValueOf(o)
	return v.Kind() == reflect.Pointer && v.IsNil()
}

// ofType returns the kind of a Go type.
func (k *kinds) ofType(t reflect.Type) (kind, error) {
	if t == nil {
		return kind{}, errors.New("nil has no kind")
	}
	for t.Kind() == reflect.Pointer {
		t = t.Elem()
	}
	if said, ok := k.explicit[t]; ok {
		return said, nil
	}
	if known, ok := k.cached.Load(t); ok {
		return known.(kind), nil //nolint:forcetypeassert // Nothing else is stored.
	}
	found, err := k.registered(t)
	if err == nil {
		k.cached.Store(t, found)
	}
	return found, err
}

// registered returns the kind of a type in the scheme of Kubernetes, or in a CRD.
func (k *kinds) registered(t reflect.Type) (kind, error) {
	if o, ok := reflect.TypeAssert[runtime.Object](reflect.New(t)); ok {
		if found, _, err := k.scheme.ObjectKinds(o); err == nil {
			return kind{found[0].GroupVersion().String(), found[0].Kind}, nil
		}
	}
	return k.definedByCRD(t)
}

// definedByCRD returns the kind of the CRD that a type is named after.
func (k *kinds) definedByCRD(t reflect.Type) (kind, error) {
	var found []kind
	for _, d := range k.crds {
		if t.Name() != "" && d.Spec.Names.Kind == t.Name() {
			found = append(found, kind{d.Spec.Group + "/" + d.servedVersion(path.Base(t.PkgPath())), t.Name()})
		}
	}
	switch len(found) {
	case 0:
		return kind{}, fmt.Errorf("unknown kind of %s: set its apiVersion and kind, use setpoint.Kind(apiVersion, kind), "+
			"or install a CustomResourceDefinition of kind %s with app.InstallCRDs", t, t.Name())
	case 1:
		return found[0], nil
	}
	return kind{}, fmt.Errorf("%s may be %s or %s: use setpoint.Kind(apiVersion, kind)", t, found[0], found[1])
}

// crdSet is the CRDs of an app.
type crdSet struct {
	texts  [][]byte
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

// statusHas reports whether a CRD of the app defines a member of the status of a kind.
func (k *kinds) statusHas(wanted kind, member string) bool {
	return slices.ContainsFunc(k.crds, func(d crdDefinition) bool {
		return d.Spec.Names.Kind == wanted.kind && slices.ContainsFunc(d.Spec.Versions, func(v crdVersion) bool {
			return d.Spec.Group+"/"+v.Name == wanted.apiVersion && v.Schema.OpenAPIV3Schema.has("status", member)
		})
	})
}

func (d *crdSet) add(text []byte) error {
	d.texts = append(d.texts, text)
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

// declares reports whether a list has a kind in any version.
func declares(list []kind, k kind) bool {
	return slices.ContainsFunc(list, func(one kind) bool { return one.group() == k.group() })
}
