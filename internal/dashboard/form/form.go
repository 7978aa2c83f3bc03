// Package form builds forms from OpenAPI schemas.
//
// It builds fields from a schema and an input, objects from fields, and merge patches between objects. It contains no
// HTML and no HTTP, and does not validate: the API server does, and AddProblems attaches its errors to the fields.
//
// All input is url.Values whose names are paths such as ".spec.items[0].name". A browser posts it, and Read builds
// fields from it. Row numbers may have gaps; empty rows are dropped when the object is built.
package form

import (
	"slices"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/schema"
)

// Options describe the object. The zero value is a new cluster-scoped object.
type Options struct {
	APIVersion, Kind string
	// Namespaced objects need a namespace, one of Namespaces or another.
	Namespaced bool
	Namespaces []string
}

// Form is the form of a schema.
type Form struct {
	options     Options
	root        spec.Schema
	definitions schema.Definitions
}

// New returns the form of a schema. known has the schemas that it references.
func New(root *spec.Schema, known map[string]*spec.Schema, options Options) *Form {
	f := &Form{options: options, definitions: known}
	flat, _, _ := f.definitions.Flatten(root, nil)
	f.root = flat
	f.root.Properties = map[string]spec.Schema{"metadata": f.metadata()}
	for name, property := range flat.Properties {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
			f.root.Properties[name] = property
		}
	}
	f.root.Required = append(slices.DeleteFunc(slices.Clone(f.root.Required), func(name string) bool {
		_, exists := f.root.Properties[name]
		return !exists
	}), "metadata")
	return f
}

// metadata returns the schema of the metadata that users edit.
func (f *Form) metadata() spec.Schema {
	texts := func(description string) spec.Schema {
		s := spec.MapProperty(spec.StringProperty())
		s.Description = description
		return *s
	}
	s := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{
		"labels":      texts("Labels to select the object by."),
		"annotations": texts("Annotations for tools and people."),
	}}}
	s.Properties["name"] = *nameSchema("Lowercase letters, digits, dashes and dots.")
	s.Required = []string{"name"}
	if f.options.Namespaced {
		s.Properties["namespace"] = *nameSchema("The namespace of the object.")
		s.Required = []string{"name", "namespace"}
	}
	return s
}

func nameSchema(description string) *spec.Schema {
	return spec.StringProperty().WithDescription(description).WithMaxLength(253)
}

// HasField reports whether objects have a top-level field.
func (f *Form) HasField(name string) bool {
	_, has := f.root.Properties[name]
	return has
}

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

func (f *Form) resolve(s *spec.Schema, depth int, refs []string) resolvedSchema {
	var flat resolvedSchema
	var recursive bool
	flat.schema, flat.refs, recursive = f.definitions.Flatten(s, refs)
	flat.kind = kindOf(&flat.schema)
	if recursive || depth > maxDepth && flat.hasParts() {
		flat.kind = Any
	}
	return flat
}

func (s *resolvedSchema) hasParts() bool { return s.kind == Object || s.kind == List || s.kind == Map }

func (s *resolvedSchema) rowSchema() *spec.Schema {
	if s.kind == Map {
		return s.schema.AdditionalProperties.Schema
	}
	return s.schema.Items.Schema
}

func kindOf(s *spec.Schema) Type {
	switch {
	case schema.IsTrue(s, "x-kubernetes-int-or-string") || s.Format == "int-or-string":
		return IntOrString
	case schema.IsTrue(s, "x-kubernetes-preserve-unknown-fields") || schema.IsTrue(s, "x-kubernetes-embedded-resource"):
		return Any
	case len(s.Type) != 1:
		return kindOfAlternatives(s)
	}
	switch s.Type[0] {
	case "string", "integer", "number", "boolean":
		return Type(s.Type[0])
	case "array":
		if s.Items != nil && s.Items.Schema != nil {
			return List
		}
	case "object":
		return kindOfObject(s)
	}
	return Any
}

// kindOfAlternatives recognizes quantities, which are text if they may be text.
func kindOfAlternatives(s *spec.Schema) Type {
	switch schema.Alternatives(s) {
	case "number string":
		return String
	case "integer string":
		return IntOrString
	}
	return Any
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
