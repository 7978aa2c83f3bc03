package userclient

import (
	"maps"
	"strings"
)

// IsSecret reports whether an object holds values that no page shows.
func IsSecret(object map[string]any) bool {
	return object["kind"] == "Secret" && (object["apiVersion"] == "v1" || object["apiVersion"] == nil)
}

// MaskSecret is an object in which each value that a Secret holds is replaced by a text:
// those of data and stringData, and in annotations what may be a copy of them, as who
// applies objects keeps there. It says how many; another object is returned as it is.
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

// maskValues masks the chosen of some values. What should be values by their names, and is
// not, could not be stored, but may be shown: it is masked as a whole.
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

// maxPlainAnnotationBytes is how long an annotation may be of which nobody thinks that it is a copy of
// a key or a certificate.
const maxPlainAnnotationBytes = 64

// mayContainSecret reports whether an annotation may hold values of other fields: by its name, or
// because it is long, or structured.
func mayContainSecret(name string, value any) bool {
	text, ok := value.(string)
	return !ok || strings.HasSuffix(name, "last-applied-configuration") || len(text) > maxPlainAnnotationBytes || strings.ContainsAny(text, "{\n")
}
