package crds

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// schema has the fields of a CRD that can break stored objects, and which versions are served.
type schema struct {
	Spec struct {
		Group    string
		Scope    string
		Names    struct{ Kind, Plural string }
		Versions []struct {
			Name   string
			Served bool
			Schema struct{ OpenAPIV3Schema *fieldSchema }
		}
	}
	Status struct{ StoredVersions []string }
}

// fieldSchema has the fields of a JSON schema that can break stored objects.
type fieldSchema struct {
	Type                 string
	Default              json.RawMessage
	Enum                 []json.RawMessage
	Required             []string
	Properties           map[string]*fieldSchema
	Items                *fieldSchema
	AdditionalProperties *additionalProperties
	PreserveUnknown      bool `json:"x-kubernetes-preserve-unknown-fields"`
	IntOrString          bool `json:"x-kubernetes-int-or-string"`
}

// additionalProperties is a schema, or true for any value, or false for none.
type additionalProperties struct {
	allowed bool
	schema  fieldSchema
}

// UnmarshalJSON reads a schema or a boolean.
func (e *additionalProperties) UnmarshalJSON(data []byte) error {
	if err := json.Unmarshal(data, &e.allowed); err == nil {
		return nil
	}
	e.allowed = true
	return json.Unmarshal(data, &e.schema)
}

// BreakingChanges returns what an upgrade of a CRD would break, by version and field path.
// Stricter limits such as a pattern are not breaking: the API server ratchets them.
func BreakingChanges(stored, wanted *object.Object) ([]string, error) {
	var before, after schema
	if err := errors.Join(json.Unmarshal(stored.JSON(), &before), json.Unmarshal(wanted.JSON(), &after)); err != nil {
		return nil, fmt.Errorf("read CRD %s: %w", wanted.Name(), err)
	}
	var found schemaDiff
	found.compareValue("spec.scope", before.Spec.Scope, after.Spec.Scope)
	found.compareValue("spec.names.kind", before.Spec.Names.Kind, after.Spec.Names.Kind)
	found.compareValue("spec.names.plural", before.Spec.Names.Plural, after.Spec.Names.Plural)
	kept := map[string]*fieldSchema{}
	for _, v := range after.Spec.Versions {
		kept[v.Name] = cmp.Or(v.Schema.OpenAPIV3Schema, &fieldSchema{})
	}
	for _, name := range before.Status.StoredVersions {
		if kept[name] == nil {
			found.add("spec.versions", "%s is removed, but objects may be stored in it (status.storedVersions)", name)
		}
	}
	for _, v := range before.Spec.Versions {
		if now, was := kept[v.Name], v.Schema.OpenAPIV3Schema; now != nil && was != nil {
			found.version = v.Name + ": "
			found.compare("", was, now)
		}
	}
	return found.all, nil
}

// schemaDiff collects breaking changes.
type schemaDiff struct {
	// version is the version being compared.
	version string
	all     []string
}

func (c *schemaDiff) add(path, format string, args ...any) {
	path = cmp.Or(strings.TrimPrefix(path, "."), "the object")
	c.all = append(c.all, c.version+path+": "+fmt.Sprintf(format, args...))
}

func (c *schemaDiff) compareValue(path, before, after string) {
	if before != after {
		c.add(path, "%s becomes %s", cmp.Or(before, "nothing"), cmp.Or(after, "nothing"))
	}
}

// compare compares the schemas of one field and of the fields below it.
func (c *schemaDiff) compare(path string, before, after *fieldSchema) {
	if before.typeName() != after.typeName() {
		c.add(path, "the type %s becomes %s", before.typeName(), after.typeName())
		return
	}
	c.required(path, before, after)
	c.enum(path, before, after)
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		c.compareChild(path+"."+name, before.Properties[name], after.property(name), after.PreserveUnknown)
	}
	if before.Items != nil {
		c.compareChild(path+"[]", before.Items, after.Items, after.PreserveUnknown)
	}
	if before.AdditionalProperties.isAllowed() {
		c.compareChild(path+".*", &before.AdditionalProperties.schema, after.property(""), after.PreserveUnknown)
	} else if before.PreserveUnknown && !after.PreserveUnknown && !after.AdditionalProperties.isAllowed() {
		c.add(path, "unknown fields are no longer preserved")
	}
}

// compareChild compares the schemas of a child field. A field without a schema is removed,
// unless unknown fields are preserved.
func (c *schemaDiff) compareChild(path string, before, after *fieldSchema, preserved bool) {
	switch {
	case after != nil:
		c.compare(path, before, after)
	case !preserved:
		c.add(path, "is removed")
	}
}

// required finds fields that become required and have no default.
func (c *schemaDiff) required(path string, before, after *fieldSchema) {
	for _, name := range slices.Sorted(slices.Values(after.Required)) {
		field := after.property(name)
		if !slices.Contains(before.Required, name) && (field == nil || field.Default == nil) {
			c.add(path+"."+name, "becomes required and has no default")
		}
	}
}

func (c *schemaDiff) enum(path string, before, after *fieldSchema) {
	allowed := after.values()
	switch {
	case len(allowed) == 0:
	case len(before.Enum) == 0:
		c.add(path, "is limited to %s", strings.Join(allowed, ", "))
	default:
		for _, value := range before.values() {
			if !slices.Contains(allowed, value) {
				c.add(path, "may no longer be %s", value)
			}
		}
	}
}

func (s *fieldSchema) values() []string {
	all := make([]string, len(s.Enum))
	for i, value := range s.Enum {
		var compact bytes.Buffer
		_ = json.Compact(&compact, value) // The value has been parsed.
		all[i] = compact.String()
	}
	return all
}

// property returns the schema of a property, or that of additional properties; nil if
// there is neither.
func (s *fieldSchema) property(name string) *fieldSchema {
	if own := s.Properties[name]; own != nil {
		return own
	}
	if s.AdditionalProperties.isAllowed() {
		return &s.AdditionalProperties.schema
	}
	return nil
}

func (e *additionalProperties) isAllowed() bool { return e != nil && e.allowed }

func (s *fieldSchema) typeName() string {
	if s.IntOrString {
		return "integer or string"
	}
	return cmp.Or(s.Type, "any")
}
