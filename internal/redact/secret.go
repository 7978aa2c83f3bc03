package redact

import (
	"encoding/json"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// Secret replaces the values of a Secret with a text: data, stringData, and annotations that may hold copies. It
// returns how many.
func Secret(secret map[string]any, text string) (masked int) {
	return ReplaceSecret(secret, func(string, any) string { return text })
}

// ReplaceSecret is Secret with a text for each path and value.
func ReplaceSecret(secret map[string]any, text func(path string, value any) string) (masked int) {
	var values Values
	values.addSecret(secret)
	return replaceSecret(secret, &values.index, text)
}

// replaceSecret replaces the values of a Secret whose index is known.
func replaceSecret(secret map[string]any, values *index, text func(path string, value any) string) (masked int) {
	all := func(string, any) bool { return true }
	masked = maskMembers(secret, "data", text, all) + maskMembers(secret, "stringData", text, all)
	if metadata, is := secret["metadata"].(map[string]any); is {
		masked += maskMembers(metadata, "annotations", text, func(name string, value any) bool {
			text, is := value.(string)
			// Whatever tool wrote it: a copy shows by its name, length and structure.
			return !is || object.IsLastApplied(name) || len(text) > maxPlainAnnotationBytes || strings.ContainsAny(text, "{\n") ||
				len(values.findEscaped(text)) > 0
		})
	}
	return masked
}

// maskMembers masks the chosen members of a field, or the whole field if it is malformed.
func maskMembers(object map[string]any, field string, text func(path string, value any) string,
	chosen func(name string, value any) bool) (masked int) {
	members, is := object[field].(map[string]any)
	if !is && object[field] != nil {
		object[field] = text(field, object[field])
		return 1
	}
	for name, value := range members {
		if value != nil && chosen(name, value) {
			members[name] = text(field+"["+name+"]", value)
			masked++
		}
	}
	return masked
}

// maxPlainAnnotationBytes is the length up to which an annotation cannot contain a key or certificate.
const maxPlainAnnotationBytes = 64

// Changes masks the values in changes of an object, if its kind is that of Secrets: its data, and its annotations, in which
// kubectl stores a copy of it.
func Changes(kind object.GroupKind, changes []object.FieldChange) []object.FieldChange {
	for i, c := range changes {
		if !kind.IsSecret() || !object.IsSecretField(c.Path) {
			continue
		}
		before, after := `"***"`, `"***"`
		if c.From != nil && c.To != nil {
			before, after = `"*** (before)"`, `"*** (after)"`
		}
		if c.From != nil {
			changes[i].From = json.RawMessage(before)
		}
		if c.To != nil {
			changes[i].To = json.RawMessage(after)
		}
	}
	return changes
}
