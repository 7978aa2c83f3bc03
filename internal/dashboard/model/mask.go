package model

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// mask replaces values of Secrets.
const mask = `"••••••"`

// isSecret reports whether a kind is masked.
func isSecret(apiVersion, kind string) bool { return apiVersion == "v1" && kind == "Secret" }

// copyAnnotations are annotations in which tools store copies of objects.
var copyAnnotations = [...]string{
	"kubectl.kubernetes.io/last-applied-configuration", "metacontroller.k8s.io/last-applied-configuration",
	"setpoint.dev/applied", "setpoint.dev/applied-fields", "setpoint.dev/last-applied-configuration",
}

// holdsCopy reports whether an annotation may contain a copy of its object.
func holdsCopy(annotation string) bool {
	return slices.Contains(copyAnnotations[:], annotation) || strings.Contains(annotation, "last-applied")
}

// maxAnnotation is the longest value of an annotation of a Secret that is shown.
const maxAnnotation = 64

// mayHoldCopy reports whether the value of an annotation may contain an object, whatever
// tool wrote it.
func mayHoldCopy(value any) bool {
	text, is := value.(string)
	return value != nil && (!is || len(text) > maxAnnotation || strings.ContainsAny(text, "{\n"))
}

// isSensitive reports whether a field of a Secret is masked.
func isSensitive(path string) bool {
	field, rest, _ := strings.Cut(path, ".")
	field, _, _ = strings.Cut(field, "[")
	switch field {
	case "data", "stringData":
		return true
	case "metadata":
		return strings.HasPrefix(rest, "annotations") && (rest == "annotations" || slices.ContainsFunc(copyAnnotations[:], func(key string) bool {
			return strings.Contains(rest, key)
		}) || strings.Contains(rest, "last-applied"))
	}
	return false
}

// quotingPhrases are phrases of the API server and of admission webhooks after which they
// may quote a Secret.
var quotingPhrases = [...]string{
	": Invalid value", ": Unsupported value", ": Duplicate value", "cannot be handled as a Secret",
	"denied the request", "denied request", ": expected", ", got",
}

// redactQuotes cuts an error about a Secret before it may quote a value. The path of an
// invalid field stays.
func redactQuotes(text string) string {
	end := len(text)
	for _, phrase := range quotingPhrases {
		if at := strings.Index(text, phrase); at >= 0 {
			end = min(end, at+len(phrase))
		}
	}
	const invalid = " is invalid: "
	if at := strings.Index(text, invalid); at >= 0 {
		path, _, _ := strings.Cut(text[at+len(invalid):], ": ")
		end = min(end, at+len(invalid)+len(path))
	}
	if end == len(text) {
		return text
	}
	return text[:end] + ": " + maskText
}

// maskValue masks the value of a field; nil stays nil.
func maskValue(value json.RawMessage) json.RawMessage {
	if value == nil {
		return nil
	}
	return json.RawMessage(mask)
}

// maskSecrets masks Secrets in JSON about an object of a kind.
func maskSecrets(text json.RawMessage, about object.Resource) json.RawMessage {
	ofSecret := isSecretResource(about)
	if text == nil || !ofSecret && !mayHaveSecret(text) {
		return text
	}
	return transformJSON(text, func(value any) any {
		members, is := value.(map[string]any)
		if !is {
			return value
		}
		if apiVersion, kind := typeOf(members); isSecret(apiVersion, kind) {
			maskSecret(members)
		}
		if ofSecret {
			maskParts(members)
		}
		return members
	})
}

// mayHaveSecret reports whether JSON may contain a Secret. The kind may be written with
// escapes.
func mayHaveSecret(text json.RawMessage) bool {
	return bytes.Contains(text, []byte(`"Secret"`)) || bytes.Contains(text, []byte(`\u`))
}

// maskSecret masks one Secret.
func maskSecret(secret map[string]any) {
	for _, name := range [...]string{"data", "stringData"} {
		maskValues(secret, name)
	}
	metadata, _ := secret["metadata"].(map[string]any)
	annotations, _ := metadata["annotations"].(map[string]any)
	for key, value := range annotations {
		if holdsCopy(key) || mayHoldCopy(value) {
			annotations[key] = maskText
		}
	}
}

// maskText is mask as a decoded string.
const maskText = "••••••"

// maskValues masks the values of a field, or the whole field if it is not an object.
func maskValues(members map[string]any, name string) {
	value, given := members[name]
	if !given || value == nil {
		return
	}
	values, is := value.(map[string]any)
	if !is {
		members[name] = maskText
		return
	}
	for key, each := range values {
		if each != nil {
			values[key] = maskText
		}
	}
}

// maskParts masks parts of a Secret that have no kind of their own: patches and changed
// fields.
func maskParts(members map[string]any) {
	if patch, is := members["patch"].(map[string]any); is {
		maskSecret(patch)
	}
	for _, name := range [...]string{"changes", "jsonPatch"} {
		items, _ := members[name].([]any)
		for _, item := range items {
			if change, is := item.(map[string]any); is {
				maskChange(change)
			}
		}
	}
}

// maskChange masks a changed field, given by either form of path.
func maskChange(change map[string]any) {
	path, _ := change["path"].(string)
	if strings.HasPrefix(path, "/") || path == "" {
		path = strings.ReplaceAll(strings.ReplaceAll(strings.TrimPrefix(path, "/"), "/", "."), "~1", "/")
	}
	whole := path == "" || path == "metadata" || isSensitive(path)
	annotation := strings.HasPrefix(path, "metadata.annotations")
	for _, side := range [...]string{"from", "to", "value"} {
		if change[side] != nil && (whole || annotation && mayHoldCopy(change[side])) {
			change[side] = maskText
		}
	}
}

// typeOf returns the apiVersion and kind of an object.
func typeOf(members map[string]any) (apiVersion, kind string) {
	apiVersion, _ = members["apiVersion"].(string)
	kind, _ = members["kind"].(string)
	return apiVersion, kind
}

// transformJSON applies a function to every value, outer values first. Invalid JSON is
// masked.
func transformJSON(text json.RawMessage, edit func(any) any) json.RawMessage {
	reader := json.NewDecoder(bytes.NewReader(text))
	reader.UseNumber()
	var value any
	if reader.Decode(&value) != nil {
		return json.RawMessage(mask)
	}
	return marshal(transformValue(value, edit))
}

func transformValue(value any, edit func(any) any) any {
	value = edit(value)
	switch inner := value.(type) {
	case map[string]any:
		for name, each := range inner {
			inner[name] = transformValue(each, edit)
		}
	case []any:
		for i, each := range inner {
			inner[i] = transformValue(each, edit)
		}
	}
	return value
}
