package object

import (
	"encoding/base64"
	"slices"
	"strings"
)

// IsSecret reports whether an object is a Secret. The apiVersion may be missing.
func IsSecret(members map[string]any) bool {
	return members["kind"] == "Secret" && (members["apiVersion"] == "v1" || members["apiVersion"] == nil)
}

// IsSecret reports whether the kind is that of Secrets.
func (k GroupKind) IsSecret() bool { return k == GroupKind{Kind: "Secret"} }

// IsSecretField reports whether a field of a Secret may hold a value: data, and annotations, in
// which tools keep copies of it.
func IsSecretField(path string) bool {
	for _, field := range []string{"data", "stringData", "metadata.annotations"} {
		if rest, is := strings.CutPrefix(path, field); is && (rest == "" || rest[0] == '.' || rest[0] == '[') {
			return true
		}
	}
	return path == "" || path == "metadata"
}

// MaskSecret replaces the values of a Secret, or of a patch of one, with a text: data,
// stringData, and annotations that may hold copies. It returns how many.
func MaskSecret(secret map[string]any, text string) (masked int) {
	return ReplaceSecretValues(secret, func(string, any) string { return text })
}

// ReplaceSecretValues is MaskSecret with a text for each path and value.
func ReplaceSecretValues(secret map[string]any, text func(path string, value any) string) (masked int) {
	all := func(string, any) bool { return true }
	values := secretValues(secret)
	masked = maskMembers(secret, "data", text, all) + maskMembers(secret, "stringData", text, all)
	if metadata, is := secret["metadata"].(map[string]any); is {
		masked += maskMembers(metadata, "annotations", text, func(name string, value any) bool {
			return mayHoldCopy(name, value) || hasOne(value, values)
		})
	}
	return masked
}

// minSecretValue is the length from which a value is looked for in other texts; shorter ones are part of ordinary words.
const minSecretValue = 4

// secretValues returns the values of a Secret, as stored and decoded.
func secretValues(secret map[string]any) (values []string) {
	for _, field := range []string{"data", "stringData"} {
		members, _ := secret[field].(map[string]any)
		for _, member := range members {
			stored, _ := member.(string)
			values = append(values, stored, base64.StdEncoding.EncodeToString([]byte(stored)))
			if decoded, err := base64.StdEncoding.DecodeString(stored); err == nil {
				values = append(values, strings.TrimSpace(string(decoded)))
			}
		}
	}
	return slices.DeleteFunc(values, func(value string) bool { return len(value) < minSecretValue })
}

// hasOne reports whether a text contains one of the values.
func hasOne(value any, values []string) bool {
	text, _ := value.(string)
	return slices.ContainsFunc(values, func(one string) bool { return strings.Contains(text, one) })
}

// maskMembers masks the chosen members of a field, or the whole field if it is malformed.
func maskMembers(object map[string]any, field string, text func(path string, value any) string, chosen func(name string, value any) bool) (masked int) {
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

// maxPlainAnnotationBytes is the length up to which an annotation cannot contain a key or
// certificate.
const maxPlainAnnotationBytes = 64

// IsLastApplied reports whether an annotation has a copy of its object's fields: that of kubectl,
// and those of controllers.
func IsLastApplied(annotation string) bool { return strings.Contains(annotation, "last-applied") }

// mayHoldCopy reports whether an annotation may contain a copy of a value, judging by its name,
// length and structure, whatever tool wrote it.
func mayHoldCopy(name string, value any) bool {
	text, is := value.(string)
	return !is || IsLastApplied(name) || len(text) > maxPlainAnnotationBytes || strings.ContainsAny(text, "{\n")
}
