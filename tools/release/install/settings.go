package install

import (
	"maps"
	"strings"

	"sigs.k8s.io/yaml"
)

// valuesYAML returns values.yaml: each value with its description, in the order of values.
func valuesYAML() []byte {
	var text strings.Builder
	var open []string
	for _, v := range values {
		names := strings.Split(v.path, ".")
		shared := 0
		for shared < len(names)-1 && shared < len(open) && open[shared] == names[shared] {
			shared++
		}
		if shared == 0 && text.Len() > 0 {
			text.WriteString("\n")
		}
		for depth := shared; depth < len(names)-1; depth++ {
			text.WriteString(strings.Repeat("  ", depth) + names[depth] + ":\n")
		}
		open = names[:len(names)-1]
		margin := strings.Repeat("  ", len(open))
		text.WriteString(margin + "# " + v.description + "\n")
		for line := range strings.Lines(v.yaml(names[len(names)-1])) {
			text.WriteString(margin + line)
		}
	}
	return []byte(text.String())
}

// yaml returns the field of a value with its default.
func (v *value) yaml(field string) string {
	if _, ok := v.initial.(builtin); ok {
		return field + ": \"\"\n"
	}
	data, err := yaml.Marshal(tree{field: v.initial})
	if err != nil {
		panic(err) // not a JSON value in values.go
	}
	return string(data)
}

// valuesSchema returns the JSON schema of values.yaml, which refuses unknown settings.
func valuesSchema() tree {
	root := newSchema()
	root["$schema"] = "http://json-schema.org/draft-07/schema#"
	for _, v := range values {
		at := root
		names := strings.Split(v.path, ".")
		for _, field := range names[:len(names)-1] {
			properties := at["properties"].(tree)
			if properties[field] == nil {
				properties[field] = newSchema()
			}
			at = properties[field].(tree)
		}
		schema := maps.Clone(v.schema)
		schema["description"] = v.description
		at["properties"].(tree)[names[len(names)-1]] = schema
	}
	// Helm adds it for subcharts.
	root["properties"].(tree)["global"] = mapping
	return root
}

func newSchema() tree {
	return tree{"type": "object", "additionalProperties": false, "properties": tree{}}
}
