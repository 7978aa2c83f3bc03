package install

import (
	"encoding/json"
	"fmt"
	"maps"
	"regexp"
	"slices"
	"strings"
)

// writer writes objects as YAML: as templates of a chart, or with the defaults of all values.
type writer struct {
	template bool
	// builtins are the values of builtins in plain manifests.
	builtins map[builtin]string
}

// document returns an object as YAML.
func (w *writer) document(o tree) string {
	return strings.Join(w.mapping(o), "\n") + "\n"
}

// mapping returns the lines of a mapping. Required fields come first: in a list, a dash precedes them.
func (w *writer) mapping(m tree) []string {
	var lines []string
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !isOptional(m[key]) {
			lines = append(lines, w.field(key, m[key])...)
		}
	}
	for _, key := range slices.Sorted(maps.Keys(m)) {
		if !isOptional(m[key]) || !w.template {
			continue
		}
		if _, ok := m[key].(when); ok {
			lines = append(lines, w.field(key, m[key])...)
			continue
		}
		v := m[key].(*value)
		lines = append(lines, "{{- with "+v.expression()+" }}", scalar(key)+": {{ toJson . }}", "{{- end }}")
	}
	return lines
}

// isOptional reports whether plain manifests omit a field or an item.
func isOptional(node any) bool {
	switch node := node.(type) {
	case *value:
		return node.isOptional()
	case when:
		return true
	}
	return false
}

// guard returns lines that the value of a when includes.
func (c when) guard(lines []string) []string {
	return slices.Concat([]string{"{{- if " + c.value.expression() + " }}"}, lines, []string{"{{- end }}"})
}

func (w *writer) field(key string, node any) []string {
	switch node := w.resolve(node).(type) {
	case tree:
		if len(node) > 0 {
			return append([]string{scalar(key) + ":"}, indent(w.mapping(node))...)
		}
	case list:
		if len(node) > 0 {
			return append([]string{scalar(key) + ":"}, w.list(node)...)
		}
	case concat:
		lines := append([]string{scalar(key) + ":"}, w.list(node.items)...)
		return append(lines, "{{- range "+node.more.expression()+" }}", "- {{ toJson . }}", "{{- end }}")
	case merged:
		lines := append([]string{scalar(key) + ":"}, indent(w.mapping(node.fields))...)
		more := "{{- range $key, $value := omit " + node.more.expression()
		for _, fixed := range slices.Sorted(maps.Keys(node.fields)) {
			more += fmt.Sprintf(" %q", fixed)
		}
		return append(lines, more+" }}", "  {{ toJson $key }}: {{ toJson $value }}", "{{- end }}")
	case when:
		return node.guard(w.field(key, node.node))
	}
	return []string{scalar(key) + ": " + w.inline(node)}
}

func (w *writer) list(items list) []string {
	var lines []string
	for _, item := range items {
		if c, ok := item.(when); ok {
			if w.template {
				lines = append(lines, c.guard(w.list(list{c.node}))...)
			}
			continue
		}
		if c, ok := item.(unless); ok {
			lines = append(lines, w.unless(c)...)
			continue
		}
		if m, ok := w.resolve(item).(tree); ok && len(m) > 0 {
			nested := indent(w.mapping(m))
			lines = append(lines, "- "+strings.TrimPrefix(nested[0], "  "))
			lines = append(lines, nested[1:]...)
			continue
		}
		lines = append(lines, "- "+w.inline(item))
	}
	return lines
}

// unless returns the lines of an item that exists by default.
func (w *writer) unless(c unless) []string {
	lines := w.list(list{c.node})
	if !w.template {
		return lines
	}
	return slices.Concat([]string{"{{- if not " + c.value.expression() + " }}"}, lines, []string{"{{- end }}"})
}

// resolve replaces values by their defaults in plain manifests.
func (w *writer) resolve(node any) any {
	if w.template {
		return node
	}
	switch node := node.(type) {
	case *value:
		return w.resolve(node.initial)
	case builtin:
		return w.builtins[node]
	case concat:
		return append(slices.Clone(node.items), node.more.initial.(list)...)
	case merged:
		all := maps.Clone(node.fields)
		maps.Copy(all, node.more.initial.(tree))
		return all
	case join:
		var text strings.Builder
		for _, part := range node {
			fmt.Fprint(&text, w.resolve(part))
		}
		return text.String()
	}
	return node
}

// inline returns a node on one line.
func (w *writer) inline(node any) string {
	switch node := w.resolve(node).(type) {
	case *value:
		return "{{ toJson " + node.reference() + " }}"
	case builtin:
		return "{{ toJson " + string(node) + " }}"
	case join:
		format, arguments := "", ""
		for _, part := range node {
			switch part := part.(type) {
			case string:
				format += strings.ReplaceAll(part, "%", "%%")
			case *value:
				format += "%v"
				arguments += " " + part.text()
			case builtin:
				format += "%v"
				arguments += " " + string(part)
			}
		}
		return fmt.Sprintf("{{ printf %q%s | toJson }}", format, arguments)
	case tree, list:
		data, err := json.Marshal(node)
		if err != nil {
			panic(err) // not a JSON value in an object
		}
		return w.literal(string(data))
	default:
		return w.literal(scalar(node))
	}
}

// literal returns a text that Helm does not take for a template: legends of graphs and texts of alerts have
// templates of their own.
func (w *writer) literal(text string) string {
	if !w.template {
		return text
	}
	return strings.ReplaceAll(text, "{{", `{{ "{{" }}`)
}

func indent(lines []string) []string {
	indented := make([]string, len(lines))
	for i, line := range lines {
		indented[i] = "  " + line
	}
	return indented
}

// plainScalar matches strings that YAML reads as strings without quotes.
var plainScalar = regexp.MustCompile(`^[A-Za-z/][\w./-]*$`)

// scalar returns a string, number or boolean as YAML.
func scalar(v any) string {
	if s, ok := v.(string); ok && plainScalar.MatchString(s) && !slices.Contains([]string{"true", "false", "null", "yes", "no", "on", "off",
		"y", "n"}, strings.ToLower(s)) {
		return s
	}
	data, err := json.Marshal(v)
	if err != nil {
		panic(err) // not a JSON value in an object
	}
	return string(data)
}
