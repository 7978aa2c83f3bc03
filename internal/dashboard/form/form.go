// Package form makes forms of schemas: fields of an OpenAPI schema, the object of what
// was entered, what is entered of an object, and problems at their fields.
//
// Here live the fields with all that a page has to know of them, the names of inputs,
// and the difference between two objects. What must not: HTML, requests, and rules of
// an API server: whether an object is valid is for it to say, and what it says finds
// its field here (Explain). The pages of internal/dashboard call.
//
// Whatever is entered has one form, url.Values, whose names are paths such as
// ".spec.items[0].name": a browser posts it, Values makes it of an object, and Read
// makes fields of it. Numbers of rows may have gaps; what becomes of an empty row is
// decided when the object is made.
package form

import (
	"slices"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Options say what a form is for. The zero value is for a new object without a
// namespace.
type Options struct {
	APIVersion, Kind string
	// Namespaced objects are asked for their namespace, one of Namespaces or another.
	Namespaced bool
	Namespaces []string
	// Existing objects have their name and namespace already.
	Existing bool
}

// Form is the form of a schema.
type Form struct {
	options     Options
	root        spec.Schema
	definitions map[string]*spec.Schema
}

// New makes the form of a schema, whose references lead to known.
func New(schema *spec.Schema, known map[string]*spec.Schema, options Options) *Form {
	f := &Form{options: options, definitions: known}
	flat, _ := f.flatten(schema, nil)
	f.root = flat.schema
	f.root.Properties = map[string]spec.Schema{"metadata": f.metadata()}
	for name, property := range flat.schema.Properties {
		if !slices.Contains([]string{"apiVersion", "kind", "metadata", "status"}, name) {
			f.root.Properties[name] = property
		}
	}
	f.root.Required = append(slices.DeleteFunc(slices.Clone(f.root.Required), func(name string) bool {
		_, kept := f.root.Properties[name]
		return !kept
	}), "metadata")
	return f
}

// metadata is the part of it that a user enters.
func (f *Form) metadata() spec.Schema {
	texts := func(description string) spec.Schema {
		s := spec.MapProperty(spec.StringProperty())
		s.Description = description
		return *s
	}
	s := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{
		"labels":      texts("Labels are there to be selected by."),
		"annotations": texts("Annotations are notes for programs and people."),
	}}}
	if f.options.Existing {
		return s
	}
	s.Properties["name"] = *nameSchema("Small letters, digits, dashes and dots.")
	s.Required = []string{"name"}
	if f.options.Namespaced {
		s.Properties["namespace"] = *nameSchema("The namespace that it lives in.")
		s.Required = []string{"name", "namespace"}
	}
	return s
}

func nameSchema(description string) *spec.Schema {
	return spec.StringProperty().WithDescription(description).WithMaxLength(253)
}

// HasField says that objects have a field of that name at their top.
func (f *Form) HasField(name string) bool {
	_, has := f.root.Properties[name]
	return has
}
