package schema

import (
	"maps"
	"reflect"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"
)

// What the Go types of Kubernetes say about their JSON.
type (
	withModelName interface{ OpenAPIModelName() string }
	withDoc       interface{ SwaggerDoc() map[string]string }
	withType      interface {
		OpenAPISchemaType() []string
		OpenAPISchemaFormat() string
	}
	withOneOf interface{ OpenAPIV3OneOfTypes() []string }
)

// AddGoType adds the definitions of a Go type of Kubernetes and of those that it refers to, and
// returns a reference to it. The names of definitions are those of the API server. Go types do not
// have the values of enumerations.
func (d Definitions) AddGoType(t reflect.Type) spec.Schema {
	zero := reflect.Zero(t).Interface()
	if described, is := zero.(withType); is {
		return scalar(zero, described)
	}
	named, is := zero.(withModelName)
	if !is {
		return d.structOf(t)
	}
	name := named.OpenAPIModelName()
	if d[name] == nil {
		d[name] = &spec.Schema{} // A type may contain itself.
		*d[name] = d.structOf(t)
	}
	return *spec.RefSchema("#/components/schemas/" + name)
}

// scalar returns the schema of a Go type with a JSON form of its own.
func scalar(zero any, described withType) spec.Schema {
	var s spec.Schema
	s.Format = described.OpenAPISchemaFormat()
	alternatives, are := zero.(withOneOf)
	if !are {
		s.Type = described.OpenAPISchemaType()
		return s
	}
	for _, one := range alternatives.OpenAPIV3OneOfTypes() {
		s.OneOf = append(s.OneOf, spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{one}}})
	}
	return s
}

func (d Definitions) schemaOf(t reflect.Type) spec.Schema {
	switch t.Kind() {
	case reflect.Pointer:
		return d.schemaOf(t.Elem())
	case reflect.Struct:
		return d.AddGoType(t)
	case reflect.Slice:
		if t.Elem().Kind() == reflect.Uint8 {
			return *spec.StrFmtProperty("byte")
		}
		items := d.schemaOf(t.Elem())
		return *spec.ArrayProperty(&items)
	case reflect.Map:
		values := d.schemaOf(t.Elem())
		return *spec.MapProperty(&values)
	case reflect.String:
		return *spec.StringProperty()
	case reflect.Bool:
		return *spec.BooleanProperty()
	case reflect.Int32:
		return *spec.Int32Property()
	case reflect.Int, reflect.Int64:
		return *spec.Int64Property()
	case reflect.Float32, reflect.Float64:
		return *spec.Float64Property()
	}
	return spec.Schema{}
}

func (d Definitions) structOf(t reflect.Type) spec.Schema {
	s := spec.Schema{SchemaProps: spec.SchemaProps{Type: []string{"object"}, Properties: map[string]spec.Schema{}}}
	if t.Kind() != reflect.Struct {
		return d.schemaOf(t)
	}
	docs := map[string]string{}
	if described, is := reflect.TypeAssert[withDoc](reflect.Zero(t)); is {
		docs = described.SwaggerDoc()
	}
	s.Description = docs[""]
	for field := range t.Fields() {
		d.addField(&s, &field, docs)
	}
	return s
}

func (d Definitions) addField(s *spec.Schema, field *reflect.StructField, docs map[string]string) {
	name, options, _ := strings.Cut(field.Tag.Get("json"), ",")
	switch {
	case name == "-" || !field.IsExported():
		return
	case name == "": // Inline: kinds, lists and unions.
		inline := d.structOf(field.Type)
		maps.Copy(s.Properties, inline.Properties)
		s.Required = append(s.Required, inline.Required...)
		return
	}
	property := d.schemaOf(field.Type)
	if RefName(&property) != "" { // A reference has no description beside it.
		property = spec.Schema{SchemaProps: spec.SchemaProps{AllOf: []spec.Schema{property}}}
	}
	property.Description = docs[name]
	s.Properties[name] = property
	if !strings.Contains(options, "omit") {
		s.Required = append(s.Required, name)
	}
}
