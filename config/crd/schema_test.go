package crd_test

import (
	"fmt"
	"maps"
	"slices"
	"strings"
)

// schema is an OpenAPI schema as it stands in a CRD.
type schema map[string]any

// field is one property somewhere in a schema; items of a list are at path[].
type field struct {
	path     string
	required bool
	schema   schema
}

// at returns the schema of a property, given the names that lead to it.
func (s schema) at(names ...string) schema {
	for _, name := range names {
		if items, isList := s["items"].(map[string]any); isList {
			s = items
		}
		properties, _ := s["properties"].(map[string]any)
		next, found := properties[name].(map[string]any)
		if !found {
			return nil
		}
		s = next
	}
	return s
}

// fields lists all properties below path, parents before children, in order of their names.
func (s schema) fields(path string) []field {
	if items, isList := s["items"].(map[string]any); isList {
		return schema(items).fields(path + "[]")
	}
	properties, _ := s["properties"].(map[string]any)
	required, _ := s["required"].([]any)
	var all []field
	for _, name := range slices.Sorted(maps.Keys(properties)) {
		property := schema(properties[name].(map[string]any))
		below := strings.TrimPrefix(path+"."+name, ".")
		all = append(all, field{below, slices.Contains(required, any(name)), property})
		all = append(all, property.fields(below)...)
	}
	return all
}

// String tells in one line what the schema asks of a field, less its description.
func (f field) String() string {
	words := []string{f.path, fmt.Sprint(f.schema["type"])}
	if f.required {
		words = append(words, "required")
	}
	words = append(words, f.schema.keywords("")...)
	if items, isList := f.schema["items"].(map[string]any); isList {
		words = append(words, schema(items).keywords("items.")...)
	}
	return strings.Join(words, " ")
}

// structural are the keywords that the listing of fields tells by itself.
var structural = []string{"description", "type", "properties", "items", "required"}

func (s schema) keywords(prefix string) []string {
	var words []string
	for _, keyword := range slices.Sorted(maps.Keys(s)) {
		if !slices.Contains(structural, keyword) {
			words = append(words, fmt.Sprintf("%s%s=%v", prefix, keyword, s[keyword]))
		}
	}
	return words
}
