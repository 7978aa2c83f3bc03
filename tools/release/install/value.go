package install

import (
	"reflect"
)

// value is a setting of the chart. In an object it stands for what the user sets; the plain
// manifests have its default.
type value struct {
	// path is where values.yaml has it, such as image.tag.
	path string
	// description is the comment in values.yaml and the description in the schema.
	description string
	initial     any
	// schema is the JSON schema of the value, without description and default.
	schema map[string]any
}

// expression refers to the value in a template.
func (v *value) expression() string { return "$.Values." + v.path }

// reference is the value in a template, with what replaces an empty one.
func (v *value) reference() string {
	if fallback, ok := v.initial.(builtin); ok {
		return "(default " + string(fallback) + " " + v.expression() + ")"
	}
	return v.expression()
}

// text is the value in a text.
func (v *value) text() string {
	if _, ok := v.initial.(list); ok {
		return `(join "," ` + v.expression() + ")"
	}
	return v.reference()
}

// isOptional reports whether a field with the value is left out by default.
func (v *value) isOptional() bool {
	if _, ok := v.initial.(builtin); ok {
		return false
	}
	initial := reflect.ValueOf(v.initial)
	switch initial.Kind() {
	case reflect.Map, reflect.Slice, reflect.String:
		return initial.Len() == 0
	}
	return false
}

// JSON schemas of values.
var (
	boolean  = map[string]any{"type": "boolean"}
	text     = map[string]any{"type": "string"}
	nonEmpty = map[string]any{"type": "string", "minLength": 1}
	mapping  = map[string]any{"type": "object"}
	texts    = map[string]any{"type": "object", "additionalProperties": text}
	objects  = map[string]any{"type": "array", "items": mapping}
	words    = map[string]any{"type": "array", "items": nonEmpty}
	// secretName is the name of a Secret, or empty.
	secretName = map[string]any{"type": "string", "maxLength": 253, "pattern": "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?)?$"}
	duration   = map[string]any{"type": "string", "pattern": "^([0-9]+(ms|[smhd]))+$"}
)

func oneOf(choices ...any) map[string]any {
	return map[string]any{"type": "string", "enum": choices}
}

// namespaceNames is a list of namespaces.
var namespaceNames = map[string]any{"type": "array", "uniqueItems": true, "items": map[string]any{
	"type": "string", "maxLength": 63, "pattern": "^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
}}

func atLeast(n int) map[string]any { return map[string]any{"type": "integer", "minimum": n} }

// concat is a list, followed by the items of a value.
type concat struct {
	items []any
	more  *value
}

// when is a field or an item that exists if a value is true or not empty. By default it is
// neither, so the plain manifests omit it.
type when struct {
	value *value
	node  any
}

// unless is an item that exists if a value is empty, as it is by default.
type unless struct {
	value *value
	node  any
}

// condition decides whether an object is installed: a *value that is true, or one of the types
// below.
type condition interface {
	// block returns the beginning of a template block, and whether plain manifests have it.
	block() (begin string, byDefault bool)
}

func (v *value) block() (string, bool) { return "if " + v.expression(), v.initial == true }

// unset installs an object if a value is empty, as it is by default.
type unset struct{ *value }

func (u unset) block() (string, bool) { return "if not " + u.expression(), true }

// each installs an object for each item of a list, which is empty by default; item is the item.
type each struct{ *value }

func (e each) block() (string, bool) { return "range " + e.expression(), false }

// merged is a mapping with more fields from a value, which cannot replace the fields here.
type merged struct {
	fields tree
	more   *value
}

// join is a text of texts and values. Lists in it have commas between their items.
type join []any

// tree is an object or a part of one. Its leaves are JSON values, *value, concat, merged, join, when
// and unless.
type tree = map[string]any

// list is a list within a tree.
type list = []any

// builtin is what Helm knows of a release.
type builtin string

const (
	releaseNamespace builtin = "$.Release.Namespace"
	releaseVersion   builtin = "$.Chart.AppVersion"
	managedBy        builtin = "$.Release.Service"
	// item is the item in an object of each.
	item builtin = "."
)
