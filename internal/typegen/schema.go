package typegen

import (
	_ "embed"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/schema"
)

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
