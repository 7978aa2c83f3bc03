package typegen

import (
	"cmp"
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/kube-openapi/pkg/validation/spec"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/schema"
)

// builder converts schemas to types.
type builder struct {
	sources Sources
	related []Resource
	names   namer
	// bases are the names before those of requests and responses, one for each controller.
	bases   map[string]bool
	objects []*Object
	// definitions are the objects of definitions, by their full names.
	definitions map[string]*Object
	// resources are the keys of kinds.
	resources map[Resource]string
	kinds     map[string]*typedKind
	// patches are the merge patches of objects.
	patches map[*Object]*Object
	wire    schema.Definitions
	untyped []string
}

// position is where a schema stands.
type position struct {
	// name is the name of an object without a name of its own.
	name        string
	definitions schema.Definitions
	// bound are the types of x-type.
	bound map[string]*Type
	// refs are the definitions without fields that led here, which may refer to themselves.
	refs []string
}

func (p position) below(name string) position {
	p.name += camel(name)
	return p
}

// typeOf returns the type of a schema.
func (b *builder) typeOf(s *spec.Schema, at position) *Type {
	if name, is := s.Extensions.GetString("x-type"); is {
		return at.bound[name]
	}
	t := b.notNull(s, at)
	if s.Nullable {
		return orNull(t)
	}
	return t
}

func (b *builder) notNull(s *spec.Schema, at position) *Type {
	if name := definitionOf(s); name != "" {
		return b.definition(name, at)
	}
	if len(s.AllOf) > 0 && len(s.Type) == 0 {
		flat, _, _ := at.definitions.Flatten(s, nil)
		s = &flat
	}
	switch {
	case len(s.Enum) > 0:
		return enumeration(s)
	case schema.IsTrue(s, "x-kubernetes-int-or-string"), s.Format == "int-or-string", schema.Alternatives(s) == "integer string":
		return union(&Type{form: integerForm}, &Type{form: stringForm})
	case schema.Alternatives(s) == "number string":
		return union(&Type{form: numberForm}, &Type{form: stringForm})
	case schema.IsTrue(s, "x-kubernetes-embedded-resource"):
		return b.embedded(s, at)
	case len(s.Type) != 1:
		return &Type{}
	}
	t := b.byType(s, at)
	t.limits = limitsOf(s)
	return t
}

func (b *builder) byType(s *spec.Schema, at position) *Type {
	isObject := s.Type[0] == "object"
	switch {
	case s.Type[0] == "array" && s.Items != nil && s.Items.Schema != nil:
		return listOf(b.typeOf(s.Items.Schema, at.below("item")))
	case s.Type[0] == "array":
		return listOf(&Type{})
	case isObject && len(s.Properties) > 0:
		o := b.declare(at.name)
		b.fill(o, s, at)
		return reference(o)
	case isObject && s.AdditionalProperties != nil && s.AdditionalProperties.Schema != nil:
		return mapOf(b.typeOf(s.AdditionalProperties.Schema, at.below("value")))
	case isObject:
		return mapOf(&Type{})
	}
	for form, names := range simple {
		if names.schema == s.Type[0] {
			return &Type{form: form}
		}
	}
	return &Type{}
}

// definition returns the type of a definition. Only objects with fields get a name.
func (b *builder) definition(name string, at position) *Type {
	target := at.definitions[name]
	switch known := b.definitions[name]; {
	case known != nil:
		return reference(known)
	case target == nil || slices.Contains(at.refs, name):
		return &Type{}
	case len(target.Properties) == 0:
		at.refs = append(slices.Clip(at.refs), name)
		return b.typeOf(target, at)
	}
	o := b.declare(definitionNames(name)...)
	b.definitions[name] = o
	b.fill(o, target, position{name: o.name, definitions: at.definitions, bound: at.bound})
	return reference(o)
}

func (b *builder) declare(names ...string) *Object {
	o := &Object{name: b.names.pick(names...)}
	b.objects = append(b.objects, o)
	return o
}

// fill sets the fields of an object.
func (b *builder) fill(o *Object, s *spec.Schema, at position) {
	at.name = o.name
	o.doc = strings.TrimSpace(s.Description)
	o.open = schema.IsTrue(s, "x-kubernetes-preserve-unknown-fields") || s.AdditionalProperties != nil &&
		(s.AdditionalProperties.Allows || s.AdditionalProperties.Schema != nil)
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		o.fields = append(o.fields, field{name, docOf(&property), b.typeOf(&property, at.below(name)), slices.Contains(s.Required, name)})
	}
}

// embedded returns the type of a field that has a whole object.
func (b *builder) embedded(s *spec.Schema, at position) *Type {
	if len(s.Properties) == 0 {
		return b.wireType("KubernetesObject")
	}
	whole := *s
	whole.Properties = maps.Clone(s.Properties)
	for name, property := range b.wire["KubernetesObject"].Properties {
		if given, has := whole.Properties[name]; !has || name == "metadata" && len(given.Properties) == 0 {
			whole.Properties[name] = property
		}
	}
	whole.Required = append([]string{"apiVersion", "kind"}, s.Required...)
	all := schema.Definitions{}
	maps.Copy(all, at.definitions)
	maps.Copy(all, b.wire)
	at.definitions = all
	o := b.declare(at.name)
	b.fill(o, &whole, at)
	return reference(o)
}

//go:embed wire.yaml
var wireText []byte

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

// addKinds adds the kinds of resources, in the order of their names.
func (b *builder) addKinds(resources []Resource) error {
	found := map[string]Kind{}
	sameName := map[string]int{}
	for _, r := range resources {
		if _, has := b.resources[r]; has {
			continue
		}
		kind, err := b.sources(r)
		if err != nil {
			return fmt.Errorf("%s: %w", r, err)
		}
		key := kind.Kind.Kind + "." + kind.APIVersion()
		if _, has := found[key]; !has {
			sameName[kind.Kind.Kind]++
		}
		found[key], b.resources[r] = kind, key
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		kind := found[key]
		name := camel(kind.Kind.Kind)
		if sameName[kind.Kind.Kind] > 1 {
			name += camel(kind.Group) + camel(kind.Version)
		}
		b.kinds[key] = &typedKind{Kind: kind, name: b.names.pick(name, name+camel(kind.Group)+camel(kind.Version))}
	}
	for _, key := range slices.Sorted(maps.Keys(found)) {
		b.addKind(b.kinds[key])
	}
	return nil
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

func (b *builder) module() *Module {
	slices.Sort(b.untyped)
	return &Module{objects: b.objects, Untyped: b.untyped}
}

// objectMeta is the definition of the metadata of objects.
const objectMeta = "io.k8s.apimachinery.pkg.apis.meta.v1.ObjectMeta"

// definitionOf returns the definition that a schema refers to, directly or as the API server does:
// with a description of its own.
func definitionOf(s *spec.Schema) string {
	if len(s.AllOf) == 1 && len(s.Properties) == 0 {
		return schema.RefName(&s.AllOf[0])
	}
	return schema.RefName(s)
}

func enumeration(s *spec.Schema) *Type {
	var all []*Type
	for _, value := range s.Enum {
		switch value.(type) {
		case nil:
			all = append(all, &Type{form: nullForm})
		case string, bool, float64:
			all = append(all, literal(value))
		default:
			return &Type{} // A list or an object.
		}
	}
	return union(all...)
}

// docOf returns the description of a field, with what no type can say.
func docOf(s *spec.Schema) string {
	lines := []string{strings.TrimSpace(s.Description)}
	if keys, _ := s.Extensions.GetStringSlice("x-kubernetes-list-map-keys"); len(keys) > 0 {
		lines = append(lines, "Items are identified by "+strings.Join(keys, ", ")+".")
	}
	if text, err := json.Marshal(s.Default); err == nil && s.Default != nil && string(text) != "{}" {
		lines = append(lines, fmt.Sprintf("Default: %s.", text))
	}
	return strings.TrimSpace(strings.Join(lines, "\n"))
}

// limitKeywords are the keywords of JSON Schema beside types.
var limitKeywords = []string{
	"exclusiveMaximum", "exclusiveMinimum", "format", "maxItems", "maxLength", "maxProperties", "maximum",
	"minItems", "minLength", "minProperties", "minimum", "multipleOf", "pattern", "uniqueItems",
}

func limitsOf(s *spec.Schema) map[string]any {
	only := spec.Schema{SchemaProps: s.SchemaProps}
	only.Properties, only.Items, only.AdditionalProperties = nil, nil, nil
	text, err := json.Marshal(only)
	if err != nil {
		return nil
	}
	var all map[string]any
	_ = json.Unmarshal(text, &all) // It was just encoded.
	maps.DeleteFunc(all, func(name string, _ any) bool { return !slices.Contains(limitKeywords, name) })
	// In OpenAPI these are flags of the other two.
	for exclusive, limit := range map[string]string{"exclusiveMaximum": "maximum", "exclusiveMinimum": "minimum"} {
		if all[exclusive] == true {
			all[exclusive] = all[limit]
			delete(all, limit)
		}
	}
	return all
}
