// Package schema reads OpenAPI schemas of kinds: from CRDs and from Go types. It resolves
// references between definitions.
//
// It sends no requests and validates no objects. The forms of the dashboard, the declarations of
// `setpoint types` and the checks of operators are built on it.
package schema

import (
	"cmp"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// Definitions are schemas by the name after the last slash of a reference.
type Definitions map[string]*spec.Schema

// Flatten follows references and merges allOf. refs are the references that led to s; below has
// those that lead to its parts. recursive is true for references that are recursive or unknown.
func (d Definitions) Flatten(s *spec.Schema, refs []string) (flat spec.Schema, below []string, recursive bool) {
	flat, below = *s, refs
	if name := RefName(s); name != "" {
		target, known := d[name]
		if !known || slices.Contains(refs, name) {
			return flat, refs, true
		}
		merged, below, recursive := d.Flatten(target, append(slices.Clip(refs), name))
		merge(&flat, &merged)
		return flat, below, recursive
	}
	for i := range s.AllOf {
		merged, more, again := d.Flatten(&s.AllOf[i], below)
		merge(&flat, &merged)
		below, recursive = more, recursive || again
	}
	return flat, below, recursive
}

// RefName returns the name of the definition that a schema references.
func RefName(s *spec.Schema) string {
	address := s.Ref.String()
	return address[strings.LastIndex(address, "/")+1:]
}

// IsTrue reports whether an extension, such as x-kubernetes-int-or-string, is true.
func IsTrue(s *spec.Schema, extension string) bool {
	on, _ := s.Extensions.GetBool(extension)
	return on
}

// Alternatives returns the types of oneOf and anyOf, sorted and joined by spaces. Quantities are
// "number string".
func Alternatives(s *spec.Schema) string {
	types := lists.FlatMap(slices.Concat(s.OneOf, s.AnyOf), func(each spec.Schema) []string { return each.Type })
	slices.Sort(types)
	return strings.Join(types, " ")
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
