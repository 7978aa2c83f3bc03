package form

import (
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Type is what kind of value a field has.
type Type string

// The types. Any is what no form is made for: it is entered as YAML.
const (
	String      Type = "string"
	Integer     Type = "integer"
	Number      Type = "number"
	Boolean     Type = "boolean"
	IntOrString Type = "int-or-string"
	Object      Type = "object"
	List        Type = "list"
	Map         Type = "map"
	Any         Type = "any"
)

// maxDepth is how many levels get fields; what lies deeper is entered as YAML.
const maxDepth = 12

// shape is a schema that says its own type, and which references led to it.
type shape struct {
	schema spec.Schema
	kind   Type
	chain  []string
}

// shape finds out what is made of a schema at a depth.
func (f *Form) shape(s *spec.Schema, depth int, chain []string) shape {
	flat, recursive := f.flatten(s, chain)
	flat.kind = kindOf(&flat.schema)
	if recursive || depth > maxDepth && flat.composed() {
		flat.kind = Any
	}
	return flat
}

// composed says that it has parts.
func (s *shape) composed() bool { return s.kind == Object || s.kind == List || s.kind == Map }

func kindOf(s *spec.Schema) Type {
	is := func(extension string) bool { on, _ := s.Extensions.GetBool(extension); return on }
	switch {
	case is("x-kubernetes-int-or-string") || s.Format == "int-or-string":
		return IntOrString
	case is("x-kubernetes-preserve-unknown-fields") || is("x-kubernetes-embedded-resource"):
		return Any
	case len(s.Type) != 1:
		return kindOfAlternatives(slices.Concat(s.OneOf, s.AnyOf))
	}
	switch s.Type[0] {
	case "string":
		return String
	case "integer":
		return Integer
	case "number":
		return Number
	case "boolean":
		return Boolean
	case "array":
		return kindOfList(s)
	case "object":
		return kindOfObject(s)
	}
	return Any
}

// kindOfAlternatives knows quantities, which are texts wherever they may be numbers.
func kindOfAlternatives(alternatives []spec.Schema) Type {
	var types []string
	for i := range alternatives {
		types = append(types, alternatives[i].Type...)
	}
	slices.Sort(types)
	switch strings.Join(types, " ") {
	case "number string":
		return String
	case "integer string":
		return IntOrString
	}
	return Any
}

func kindOfList(s *spec.Schema) Type {
	if s.Items == nil || s.Items.Schema == nil {
		return Any
	}
	return List
}

func kindOfObject(s *spec.Schema) Type {
	more := s.AdditionalProperties
	switch {
	case len(s.Properties) == 0 && more != nil && more.Schema != nil:
		return Map
	case more != nil && (more.Allows || more.Schema != nil):
		return Any
	}
	return Object
}

// flatten follows references and folds what must all hold into one schema. It says
// when a reference leads back to where it came from.
func (f *Form) flatten(s *spec.Schema, chain []string) (flat shape, recursive bool) {
	flat = shape{schema: *s, chain: chain}
	if name := referenced(s); name != "" {
		target, known := f.known[name]
		if !known || slices.Contains(chain, name) {
			return flat, true
		}
		below, recursive := f.flatten(target, append(slices.Clip(chain), name))
		fold(&flat.schema, &below.schema)
		flat.chain = below.chain
		return flat, recursive
	}
	for i := range s.AllOf {
		below, again := f.flatten(&s.AllOf[i], flat.chain)
		fold(&flat.schema, &below.schema)
		flat.chain, recursive = below.chain, recursive || again
	}
	return flat, recursive
}

// referenced is the name of a definition, the last part of its address.
func referenced(s *spec.Schema) string {
	address := s.Ref.String()
	return address[strings.LastIndex(address, "/")+1:]
}

// fold fills what a schema leaves open from another.
func fold(s, from *spec.Schema) {
	s.Type = first(s.Type, from.Type)
	s.Description = either(s.Description, from.Description)
	s.Format = either(s.Format, from.Format)
	s.Pattern = either(s.Pattern, from.Pattern)
	s.Nullable = s.Nullable || from.Nullable
	s.Enum = first(s.Enum, from.Enum)
	s.OneOf, s.AnyOf = first(s.OneOf, from.OneOf), first(s.AnyOf, from.AnyOf)
	s.Required = slices.Concat(s.Required, from.Required)
	s.Minimum, s.Maximum = one(s.Minimum, from.Minimum), one(s.Maximum, from.Maximum)
	s.MinLength, s.MaxLength = one(s.MinLength, from.MinLength), one(s.MaxLength, from.MaxLength)
	s.MinItems, s.MaxItems = one(s.MinItems, from.MinItems), one(s.MaxItems, from.MaxItems)
	s.Items = one(s.Items, from.Items)
	s.AdditionalProperties = one(s.AdditionalProperties, from.AdditionalProperties)
	if s.Default == nil {
		s.Default = from.Default
	}
	foldMaps(s, from)
}

func foldMaps(s, from *spec.Schema) {
	properties := map[string]spec.Schema{}
	extensions := spec.Extensions{}
	for _, each := range []*spec.Schema{from, s} {
		maps.Copy(properties, each.Properties)
		maps.Copy(extensions, each.Extensions)
	}
	s.Properties, s.Extensions = properties, extensions
}

func either(a, b string) string {
	if a != "" {
		return a
	}
	return b
}

func first[S ~[]E, E any](a, b S) S {
	if len(a) > 0 {
		return a
	}
	return b
}

func one[T any](a, b *T) *T {
	if a != nil {
		return a
	}
	return b
}
