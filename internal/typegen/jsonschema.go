package typegen

import (
	"encoding/json"
	"maps"

	"github.com/setpoint-dev/setpoint/internal/lists"
)

// JSONSchema returns the types as $defs of a JSON Schema.
func (m *Module) JSONSchema() ([]byte, error) {
	all := map[string]any{}
	for _, o := range m.objects {
		all[o.name] = objectSchema(o)
	}
	text, err := json.MarshalIndent(map[string]any{
		"$schema": "https://json-schema.org/draft/2020-12/schema", "$comment": Header, "$defs": all,
	}, "", "  ")
	return append(text, '\n'), err
}

func objectSchema(o *Object) map[string]any {
	properties, required := map[string]any{}, []string{}
	for _, f := range o.fields {
		properties[f.name] = described(typeSchema(f.typ), f.doc)
		if f.required {
			required = append(required, f.name)
		}
	}
	s := map[string]any{"type": "object", "properties": properties}
	if len(required) > 0 {
		s["required"] = required
	}
	if !o.open {
		s["additionalProperties"] = false
	}
	return described(s, o.doc)
}

func described(s map[string]any, doc string) map[string]any {
	if doc != "" {
		s["description"] = doc
	}
	return s
}

func typeSchema(t *Type) map[string]any {
	s := map[string]any{}
	maps.Copy(s, t.limits)
	switch t.form {
	case anyForm:
	case listForm:
		s["type"], s["items"] = "array", typeSchema(t.of[0])
	case mapForm:
		s["type"], s["additionalProperties"] = "object", typeSchema(t.of[0])
	case unionForm:
		s["anyOf"] = lists.Map(t.of, typeSchema)
	case literalForm:
		s["const"] = t.value
	case objectForm:
		s["$ref"] = "#/$defs/" + t.object.name
	default:
		s["type"] = simple[t.form].schema
	}
	return s
}
