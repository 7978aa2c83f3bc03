package typegen

import (
	"cmp"
	_ "embed"
	"fmt"
	"maps"
	"reflect"
	"slices"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/schema"
)

//go:embed wire.yaml
var wireText []byte

// objectMeta is the definition of the metadata of objects.
const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// typedKind is a kind with its types.
type typedKind struct {
	Kind
	name string
	// object is the type of stored objects.
	object *Object
	// reviewed is that of objects before they are stored, which may have no name.
	reviewed *Object
}

func newBuilder(o Options) (*builder, error) {
	b := &builder{
		sources: o.Sources, related: o.Related, names: namer{}, bases: map[string]bool{}, definitions: map[string]*Object{},
		resources: map[Resource]string{}, kinds: map[string]*typedKind{}, patches: map[*Object]*Object{}, wire: schema.Definitions{},
	}
	b.wire.AddGoType(reflect.TypeFor[metav1.ObjectMeta]())
	b.wire.AddGoType(reflect.TypeFor[metav1.LabelSelector]())
	meta := b.wire[objectMeta]
	delete(meta.Properties, "managedFields") // Requests do not have them.
	if err := yaml.UnmarshalStrict(wireText, &b.wire); err != nil {
		return nil, fmt.Errorf("read wire.yaml: %w", err)
	}
	named := *meta
	named.Description = "The metadata of an object with a name."
	named.Required = []string{"name"}
	b.wire["NamedObjectMeta"] = &named
	return b, nil
}

// wireType returns a type that wire.yaml declares and that is the same for all controllers.
func (b *builder) wireType(name string) *Type {
	return b.definition(name, position{definitions: b.wire})
}

// addKind adds the type of the objects of a kind.
func (b *builder) addKind(k *typedKind) {
	k.object = &Object{name: k.name}
	b.objects = append(b.objects, k.object)
	root, _, _ := k.Definitions.Flatten(cmp.Or(k.Schema, &spec.Schema{}), nil)
	root.Properties = maps.Clone(root.Properties)
	for _, common := range []string{"apiVersion", "kind", "metadata"} {
		delete(root.Properties, common)
	}
	b.fill(k.object, &root, position{definitions: k.Definitions})
	if len(root.Properties) == 0 {
		k.object.open = true
		if k.Schema == nil {
			b.untyped = append(b.untyped, k.Kind.Kind.Kind+"."+k.APIVersion())
		}
	}
	k.object.fields = slices.Concat(k.identity("NamedObjectMeta", b), k.object.fields)
}

// identity returns the fields that every object has.
func (k *typedKind) identity(metadata string, b *builder) []field {
	return []field{
		{name: "apiVersion", typ: literal(k.APIVersion()), required: true},
		{name: "kind", typ: literal(k.Kind.Kind.Kind), required: true},
		{name: "metadata", typ: b.wireType(metadata), required: true},
	}
}

// beforeStored returns the type of objects that admission reviews.
func (b *builder) beforeStored(k *typedKind) *Type {
	if k.reviewed == nil {
		k.reviewed = b.declare("Reviewed" + k.name)
		k.reviewed.doc = "A " + k.Kind.Kind.Kind + " before it is stored. It may have no name yet."
		k.reviewed.open = k.object.open
		k.reviewed.fields = slices.Concat(k.identity(objectMeta, b), k.object.fields[3:])
	}
	return reference(k.reviewed)
}

// status returns the type of the status, which may have any fields if the kind has none.
func (k *typedKind) status() *Type {
	for _, f := range k.object.fields {
		if f.name == "status" {
			return f.typ
		}
	}
	return mapOf(&Type{})
}

func (b *builder) module() *Module {
	slices.Sort(b.untyped)
	return &Module{objects: b.objects, Untyped: b.untyped}
}
