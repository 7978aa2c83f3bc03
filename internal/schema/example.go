package schema

import (
	"maps"
	"math"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// Example returns a small value of a schema: what is required and has no default. Patterns and
// rules in CEL may still refuse it.
func Example(s *spec.Schema) any {
	switch {
	case s.Default != nil:
		return s.Default
	case len(s.Enum) > 0:
		return s.Enum[0]
	case IsTrue(s, "x-kubernetes-int-or-string") || len(s.Type) == 0:
		return exampleText(s)
	}
	switch s.Type[0] {
	case "object":
		return exampleObject(s)
	case "array":
		return exampleList(s)
	case "boolean":
		return true
	case "integer", "number":
		return exampleNumber(s)
	}
	return exampleText(s)
}

func exampleObject(s *spec.Schema) map[string]any {
	fields := map[string]any{}
	for _, name := range slices.Sorted(maps.Keys(s.Properties)) {
		property := s.Properties[name]
		if slices.Contains(s.Required, name) && property.Default == nil {
			fields[name] = Example(&property)
		}
	}
	return fields
}

func exampleList(s *spec.Schema) []any {
	items := []any{}
	if s.MinItems != nil && s.Items != nil && s.Items.Schema != nil {
		for range *s.MinItems {
			items = append(items, Example(s.Items.Schema))
		}
	}
	return items
}

// exampleNumber returns 1, or the nearest number that is allowed. Integers have at least the step 1.
func exampleNumber(s *spec.Schema) float64 {
	step, steps := 1.0, s.Type.Contains("integer")
	if s.MultipleOf != nil && *s.MultipleOf > 0 {
		step, steps = *s.MultipleOf, true
	}
	// bound returns the number next to a limit, in the direction of sign.
	bound := func(limit float64, exclusive bool, sign float64) float64 {
		number := limit
		if steps {
			number = sign * math.Ceil(sign*limit/step) * step
		}
		if exclusive && number == limit {
			number += sign * step
		}
		return number
	}
	number := step
	if s.Minimum != nil {
		number = max(number, bound(*s.Minimum, s.ExclusiveMinimum, 1))
	}
	if s.Maximum != nil {
		number = min(number, bound(*s.Maximum, s.ExclusiveMaximum, -1))
	}
	return number
}

func exampleText(s *spec.Schema) string {
	text := map[string]string{"date-time": "2026-01-01T00:00:00Z", "date": "2026-01-01", "byte": "", "uri": "https://example.com"}[s.Format]
	if text == "" && s.Format != "byte" {
		text = "example"
	}
	if s.MinLength != nil && len(text) < int(*s.MinLength) {
		text += strings.Repeat("x", int(*s.MinLength)-len(text))
	}
	if s.MaxLength != nil && len(text) > int(*s.MaxLength) {
		text = text[:*s.MaxLength]
	}
	return text
}
