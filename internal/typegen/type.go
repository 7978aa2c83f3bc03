package typegen

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// form is what a Type is.
type form int

const (
	anyForm form = iota
	nullForm
	stringForm
	integerForm
	numberForm
	booleanForm
	// listForm and mapForm have one type in of, a union several.
	listForm
	mapForm
	unionForm
	literalForm
	objectForm
)

// simple are the names of forms in the languages.
var simple = map[form]struct{ typeScript, python, schema string }{
	anyForm:     {"any", "Any", ""},
	nullForm:    {"null", "None", "null"},
	stringForm:  {"string", "str", "string"},
	integerForm: {"number", "int", "integer"},
	numberForm:  {"number", "float", "number"},
	booleanForm: {"boolean", "bool", "boolean"},
}

// Type is a type of JSON values.
type Type struct {
	form   form
	of     []*Type
	value  any     // of a literal
	object *Object // of an object
	// limits are keywords of JSON Schema that other languages do not have, such as pattern.
	limits map[string]any
}

// Object is a named type of objects with these fields.
type Object struct {
	name, doc string
	fields    []field
	// open objects may have other fields.
	open bool
}

type field struct {
	name, doc string
	typ       *Type
	required  bool
}

func literal(value any) *Type        { return &Type{form: literalForm, value: value} }
func listOf(items *Type) *Type       { return &Type{form: listForm, of: []*Type{items}} }
func mapOf(values *Type) *Type       { return &Type{form: mapForm, of: []*Type{values}} }
func reference(object *Object) *Type { return &Type{form: objectForm, object: object} }
func orNull(t *Type) *Type           { return union(t, &Type{form: nullForm}) }

// union returns a type that is one of all. No type at all is any.
func union(all ...*Type) *Type {
	var of []*Type
	for _, each := range all {
		if each.form == anyForm {
			return each
		}
		parts := []*Type{each}
		if each.form == unionForm {
			parts = each.of
		}
		for _, part := range parts {
			if !slices.ContainsFunc(of, part.equals) {
				of = append(of, part)
			}
		}
	}
	switch len(of) {
	case 0:
		return &Type{}
	case 1:
		return of[0]
	}
	return &Type{form: unionForm, of: of}
}

// equals compares what unions have: literals, objects and simple types.
func (t *Type) equals(other *Type) bool {
	return t.form == other.form && t.value == other.value && t.object == other.object && slices.Equal(t.of, other.of)
}

// literals returns a union of literals.
func literals[S ~string](values ...S) *Type {
	all := lists.Map(values, func(value S) *Type { return literal(string(value)) })
	return union(all...)
}

// Module are declarations.
type Module struct {
	objects []*Object
	// Untyped are the kinds without a schema.
	Untyped []string
}
