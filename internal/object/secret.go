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

// IsLastApplied reports whether an annotation has a copy of its object's fields: that of kubectl,
// and those of controllers.
func IsLastApplied(annotation string) bool { return strings.Contains(annotation, "last-applied") }
