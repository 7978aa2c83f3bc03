package userclient

import (
	"maps"
	"strings"
)

// IsSecret reports whether an object is a Secret.
func IsSecret(object map[string]any) bool {
	return object["kind"] == "Secret" && (object["apiVersion"] == "v1" || object["apiVersion"] == nil)
}

// MaskSecret replaces the values of a Secret with a text: data, stringData, and annotations
// that may contain copies, such as last-applied-configuration. It returns how many. Other
// objects are returned unchanged.
func MaskSecret(object map[string]any, text string) (shown map[string]any, hidden int) {
	if !IsSecret(object) {
		return object, 0
	}
	shown = maps.Clone(object)
	for _, part := range []string{"data", "stringData"} {
		if values := object[part]; values != nil {
			masked, n := maskValues(values, text, func(string, any) bool { return true })
			shown[part], hidden = masked, hidden+n
		}
	}
	metadata, _ := object["metadata"].(map[string]any)
	if annotations, n := maskValues(metadata["annotations"], text, mayContainSecret); n > 0 {
		metadata = maps.Clone(metadata)
		metadata["annotations"], hidden = annotations, hidden+n
		shown["metadata"] = metadata
	}
	return shown, hidden
}

// maskValues masks the chosen values. Malformed maps are masked as a whole.
func maskValues(values any, text string, chosen func(name string, value any) bool) (masked any, hidden int) {
	if values == nil {
		return nil, 0
	}
	members, ok := values.(map[string]any)
	if !ok {
		return text, 1
	}
	members = maps.Clone(members)
	for name, value := range members {
		if chosen(name, value) {
			members[name] = text
			hidden++
		}
	}
	return members, hidden
}

// maxPlainAnnotationBytes is the length up to which an annotation cannot contain a key or
// certificate.
const maxPlainAnnotationBytes = 64

// mayContainSecret reports whether an annotation may contain a copy of a value, judging by its
// name, length and structure.
func mayContainSecret(name string, value any) bool {
	text, ok := value.(string)
	return !ok || strings.HasSuffix(name, "last-applied-configuration") || len(text) > maxPlainAnnotationBytes || strings.ContainsAny(text, "{\n")
}
