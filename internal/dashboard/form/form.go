// Package form builds forms from OpenAPI schemas.
//
// It builds fields from a schema and an input, objects from fields, and merge patches between
// objects. It contains no HTML and no HTTP, and does not validate: the
// API server does, and AddProblems attaches its errors to the fields.
//
// All input is url.Values whose names are paths such as ".spec.items[0].name". A browser posts
// it, and Read builds fields from it. Row numbers may have
// gaps; empty rows are dropped when the object is built.
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
