package form

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Type is the type of a field.
type Type string

// Field types. Any is edited as YAML.
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

// maxDepth is the maximum depth of fields; deeper ones are edited as YAML.
const maxDepth = 12

// resolvedSchema is a schema without references, its type, and the references that led to it.
type resolvedSchema struct {
	schema spec.Schema
	kind   Type
	refs   []string
}

// resolve resolves a schema at a depth.
func (f *Form) resolve(s *spec.Schema, depth int, refs []string) resolvedSchema {
	flat, recursive := f.flatten(s, refs)
	flat.kind = kindOf(&flat.schema)
	if recursive || depth > maxDepth && flat.hasParts() {
		flat.kind = Any
	}
	return flat
}

// hasParts reports whether the type is composed.
func (s *resolvedSchema) hasParts() bool { return s.kind == Object || s.kind == List || s.kind == Map }

// rowSchema returns the schema of the items of a list or map; nil for other types.
func (s *resolvedSchema) rowSchema() *spec.Schema {
	switch s.kind {
	case List:
		return s.schema.Items.Schema
	case Map:
		return s.schema.AdditionalProperties.Schema
	}
	return nil
}

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

// kindOfAlternatives recognizes quantities, which are text if they may be text.
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

// flatten follows references and merges allOf. It returns true for recursive references.
func (f *Form) flatten(s *spec.Schema, refs []string) (flat resolvedSchema, recursive bool) {
	flat = resolvedSchema{schema: *s, refs: refs}
	if name := refName(s); name != "" {
		target, known := f.definitions[name]
		if !known || slices.Contains(refs, name) {
			return flat, true
		}
		below, recursive := f.flatten(target, append(slices.Clip(refs), name))
		merge(&flat.schema, &below.schema)
		flat.refs = below.refs
		return flat, recursive
	}
	for i := range s.AllOf {
		below, again := f.flatten(&s.AllOf[i], flat.refs)
		merge(&flat.schema, &below.schema)
		flat.refs, recursive = below.refs, recursive || again
	}
	return flat, recursive
}

// refName returns the definition that a schema references.
func refName(s *spec.Schema) string {
	address := s.Ref.String()
	return address[strings.LastIndex(address, "/")+1:]
}

// merge fills unset fields of a schema from another one.
func merge(s, from *spec.Schema) {
	s.Type = firstSlice(s.Type, from.Type)
	s.Description = cmp.Or(s.Description, from.Description)
	s.Format = cmp.Or(s.Format, from.Format)
	s.Pattern = cmp.Or(s.Pattern, from.Pattern)
	s.Nullable = s.Nullable || from.Nullable
	s.Enum = firstSlice(s.Enum, from.Enum)
	s.OneOf, s.AnyOf = firstSlice(s.OneOf, from.OneOf), firstSlice(s.AnyOf, from.AnyOf)
	s.Required = slices.Concat(s.Required, from.Required)
	s.Minimum, s.Maximum = cmp.Or(s.Minimum, from.Minimum), cmp.Or(s.Maximum, from.Maximum)
	s.MinLength, s.MaxLength = cmp.Or(s.MinLength, from.MinLength), cmp.Or(s.MaxLength, from.MaxLength)
	s.Items = cmp.Or(s.Items, from.Items)
	s.AdditionalProperties = cmp.Or(s.AdditionalProperties, from.AdditionalProperties)
	if s.Default == nil {
		s.Default = from.Default
	}
	mergeMaps(s, from)
}

func mergeMaps(s, from *spec.Schema) {
	properties := map[string]spec.Schema{}
	extensions := spec.Extensions{}
	for _, each := range []*spec.Schema{from, s} {
		maps.Copy(properties, each.Properties)
		maps.Copy(extensions, each.Extensions)
	}
	s.Properties, s.Extensions = properties, extensions
}

func firstSlice[S ~[]E, E any](a, b S) S {
	if len(a) > 0 {
		return a
	}
	return b
}
