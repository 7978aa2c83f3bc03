package object

import "strings"

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
	masked = maskMembers(secret, "data", text, all) + maskMembers(secret, "stringData", text, all)
	if metadata, is := secret["metadata"].(map[string]any); is {
		masked += maskMembers(metadata, "annotations", text, mayHoldCopy)
	}
	return masked
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

// mayHoldCopy reports whether an annotation may contain a copy of a value, judging by its name,
// length and structure, whatever tool wrote it.
func mayHoldCopy(name string, value any) bool {
	text, is := value.(string)
	return !is || strings.Contains(name, "last-applied") || len(text) > maxPlainAnnotationBytes || strings.ContainsAny(text, "{\n")
}
