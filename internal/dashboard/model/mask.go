package model

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// mask stands for a value that nobody is to read here.
const mask = `"••••••"`

// isSecret says whether objects of a kind hold what is not shown.
func isSecret(apiVersion, kind string) bool { return apiVersion == "v1" && kind == "Secret" }

// copyAnnotations are the annotations in which tools keep copies of objects.
var copyAnnotations = [...]string{
	"kubectl.kubernetes.io/last-applied-configuration", "metacontroller.k8s.io/last-applied-configuration",
	"setpoint.dev/applied", "setpoint.dev/applied-fields", "setpoint.dev/last-applied-configuration",
}

// holdsCopy says whether an annotation may have a copy of its object.
func holdsCopy(annotation string) bool {
	return slices.Contains(copyAnnotations[:], annotation) || strings.Contains(annotation, "last-applied")
}

// maxAnnotation is how long the value of an annotation of a Secret may be to be shown.
const maxAnnotation = 64

// mayHoldCopy says whether the value of an annotation is one that can have a copy of an
// object in it, whatever tool keeps it there.
func mayHoldCopy(value any) bool {
	text, is := value.(string)
	return value != nil && (!is || len(text) > maxAnnotation || strings.ContainsAny(text, "{\n"))
}

// isSensitive says whether a field of a Secret is one that is not shown.
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

// quotingPhrases are words of the API server, and of those whom it asks, after which they may
// quote what a Secret holds.
var quotingPhrases = [...]string{
	": Invalid value", ": Unsupported value", ": Duplicate value", "cannot be handled as a Secret",
	"denied the request", "denied request", ": expected", ", got",
}

// redactQuotes is an error about a Secret up to where it may quote: of a field that is not
// valid, its path is left.
func redactQuotes(text string) string {
	end := len(text)
	for _, words := range quotingPhrases {
		if at := strings.Index(text, words); at >= 0 {
			end = min(end, at+len(words))
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

// maskValue stands for the value of a field; one that is missing stays so.
func maskValue(value json.RawMessage) json.RawMessage {
	if value == nil {
		return nil
	}
	return json.RawMessage(mask)
}

// maskSecrets hides what Secrets hold in JSON that is about an object of a kind.
func maskSecrets(text json.RawMessage, about object.Resource) json.RawMessage {
	ofSecret := isSecret(about.APIVersion(), about.Kind)
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

// mayHaveSecret says whether JSON must be read to know that no Secret is in it: its kind
// may be spelt with escapes.
func mayHaveSecret(text json.RawMessage) bool {
	return bytes.Contains(text, []byte(`"Secret"`)) || bytes.Contains(text, []byte(`\u`))
}

// maskSecret hides what one Secret holds.
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

// maskText is mask as it is in a tree.
const maskText = "••••••"

// maskValues hides the values of a field; what is no object is hidden whole.
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

// maskParts hides, in what is asked and answered about a Secret, what is said of it
// without its kind: patches, and the fields that have changed.
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

// maskChange hides the values of one field, by a path of either form.
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

// typeOf is the apiVersion and kind of what may be an object.
func typeOf(members map[string]any) (apiVersion, kind string) {
	apiVersion, _ = members["apiVersion"].(string)
	kind, _ = members["kind"].(string)
	return apiVersion, kind
}

// transformJSON is JSON of which every value went through a function, the outer ones first.
// What cannot be read is not shown.
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
