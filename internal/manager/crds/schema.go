package crds

import (
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/kube-openapi/pkg/validation/spec"

	"github.com/setpoint-dev/setpoint/internal/compile"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/schema"
)

// definition has the fields of a CRD that can break stored objects, and which versions are served.
type definition struct {
	Spec struct {
		Group    string
		Scope    string
		Names    struct{ Kind, Plural string }
		Versions []struct {
			Name   string
			Served bool
			Schema struct{ OpenAPIV3Schema *spec.Schema }
		}
	}
	Status struct{ StoredVersions []string }
}

// definitionOf reads a CRD.
func definitionOf(crd *object.Object) (d definition, err error) {
	if err = json.Unmarshal(crd.JSON(), &d); err != nil {
		err = fmt.Errorf("read CRD %s: %w", crd.Name(), err)
	}
	return d, err
}

// StatusSchema returns which status fields a version of a CRD has.
func StatusSchema(crd *object.Object, version string) (compile.Status, error) {
	shape, err := definitionOf(crd)
	if err != nil {
		return compile.Status{}, err
	}
	for _, v := range shape.Spec.Versions {
		if v.Name != version || v.Schema.OpenAPIV3Schema == nil {
			continue
		}
		status := v.Schema.OpenAPIV3Schema.Properties["status"]
		conditions, typed := status.Properties["conditions"]
		_, records := status.Properties[lasthandled.StatusField]
		return compile.Status{
			Untyped:    !typed && schema.IsTrue(&status, preserveUnknown),
			Conditions: holdConditions(itemsOf(&conditions)),
			Records:    records,
		}, nil
	}
	return compile.Status{}, nil
}

// holdConditions reports whether the items of a list can be Kubernetes conditions. Another schema could reject ours, or
// prune what they say; that of an observedGeneration says little.
func holdConditions(items *spec.Schema) bool {
	if items == nil {
		return false
	}
	written := []string{"lastTransitionTime", "message", "observedGeneration", "reason", "status", "type"}
	for _, name := range written {
		field, has := items.Properties[name]
		switch {
		case !has && name != "observedGeneration" && !schema.IsTrue(items, preserveUnknown):
			return false
		case name != "status" && len(field.Enum) > 0:
			return false
		}
	}
	return !slices.ContainsFunc(items.Required, func(name string) bool { return !slices.Contains(written, name) })
}

// HasStatusConditions reports whether a CRD that Setpoint does not install has conditions in its status schema.
func HasStatusConditions(stored *object.Object, ours Manifest) (bool, error) {
	shape, err := definitionOf(ours.Object)
	if err != nil {
		return false, err
	}
	for _, version := range shape.Spec.Versions {
		wanted, err := StatusSchema(ours.Object, version.Name)
		if err != nil {
			return false, err
		}
		has, err := StatusSchema(stored, version.Name)
		if err != nil || wanted.Conditions && !has.Conditions {
			return false, err
		}
	}
	return true, nil
}

// BreakingChanges returns what an upgrade of a CRD would break, by version and field path.
// Stricter limits such as a pattern are not breaking: the API server ratchets them.
func BreakingChanges(stored, wanted *object.Object) ([]string, error) {
	before, err := definitionOf(stored)
	if err != nil {
		return nil, err
	}
	after, err := definitionOf(wanted)
	if err != nil {
		return nil, err
	}
	var found schemaDiff
	found.compareValue("spec.scope", before.Spec.Scope, after.Spec.Scope)
	found.compareValue("spec.names.kind", before.Spec.Names.Kind, after.Spec.Names.Kind)
	found.compareValue("spec.names.plural", before.Spec.Names.Plural, after.Spec.Names.Plural)
	kept := map[string]*spec.Schema{}
	for _, v := range after.Spec.Versions {
		kept[v.Name] = cmp.Or(v.Schema.OpenAPIV3Schema, &spec.Schema{})
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
func (c *schemaDiff) compare(path string, before, after *spec.Schema) {
	if typeName(before) != typeName(after) {
		c.add(path, "the type %s becomes %s", typeName(before), typeName(after))
		return
	}
	c.required(path, before, after)
	c.enum(path, before, after)
	open := schema.IsTrue(after, preserveUnknown)
	for _, name := range slices.Sorted(maps.Keys(before.Properties)) {
		c.compareChild(path+"."+name, new(before.Properties[name]), property(after, name), open)
	}
	if was := itemsOf(before); was != nil {
		c.compareChild(path+"[]", was, itemsOf(after), open)
	}
	if was := additional(before); was != nil {
		c.compareChild(path+".*", was, property(after, ""), open)
	} else if schema.IsTrue(before, preserveUnknown) && !open && additional(after) == nil {
		c.add(path, "unknown fields are no longer preserved")
	}
}

// compareChild compares the schemas of a child field. A field without a schema is removed,
// unless unknown fields are preserved.
func (c *schemaDiff) compareChild(path string, before, after *spec.Schema, preserved bool) {
	switch {
	case after != nil:
		c.compare(path, before, after)
	case !preserved:
		c.add(path, "is removed")
	}
}

// required finds fields that become required and have no default.
func (c *schemaDiff) required(path string, before, after *spec.Schema) {
	for _, name := range slices.Sorted(slices.Values(after.Required)) {
		field := property(after, name)
		if !slices.Contains(before.Required, name) && (field == nil || field.Default == nil) {
			c.add(path+"."+name, "becomes required and has no default")
		}
	}
}

func (c *schemaDiff) enum(path string, before, after *spec.Schema) {
	allowed := lists.Map(after.Enum, asJSON)
	switch {
	case len(allowed) == 0:
	case len(before.Enum) == 0:
		c.add(path, "is limited to %s", strings.Join(allowed, ", "))
	default:
		for _, value := range lists.Map(before.Enum, asJSON) {
			if !slices.Contains(allowed, value) {
				c.add(path, "may no longer be %s", value)
			}
		}
	}
}

func asJSON(value any) string {
	text, _ := json.Marshal(value) //nolint:errchkjson // It was decoded from JSON.
	return string(text)
}

// property returns the schema of a property, or that of additional properties; nil if there is neither.
func property(s *spec.Schema, name string) *spec.Schema {
	if own, has := s.Properties[name]; has {
		return &own
	}
	return additional(s)
}

// additional returns the schema of additional properties; nil if there are none.
func additional(s *spec.Schema) *spec.Schema {
	if s.AdditionalProperties == nil || !s.AdditionalProperties.Allows {
		return nil
	}
	return cmp.Or(s.AdditionalProperties.Schema, &spec.Schema{})
}

// itemsOf returns the schema of the items of a list; nil if it has none.
func itemsOf(s *spec.Schema) *spec.Schema {
	if s.Items == nil {
		return nil
	}
	return s.Items.Schema
}

// preserveUnknown is the extension of objects with any fields.
const preserveUnknown = "x-kubernetes-preserve-unknown-fields"

func typeName(s *spec.Schema) string {
	if schema.IsTrue(s, "x-kubernetes-int-or-string") {
		return "integer or string"
	}
	return cmp.Or(strings.Join(s.Type, " "), "any")
}
