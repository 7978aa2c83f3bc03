package form

import (
	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/schema"
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
	var flat resolvedSchema
	var recursive bool
	flat.schema, flat.refs, recursive = f.definitions.Flatten(s, refs)
	flat.kind = kindOf(&flat.schema)
	if recursive || depth > maxDepth && flat.hasParts() {
		flat.kind = Any
	}
	return flat
}

// hasParts reports whether the type is composed.
func (s *resolvedSchema) hasParts() bool { return s.kind == Object || s.kind == List || s.kind == Map }

// rowSchema returns the schema of the items of a list or map.
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
