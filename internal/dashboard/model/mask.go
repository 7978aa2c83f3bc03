package model

import (
	"bytes"
	"encoding/json"
	"strconv"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// mask replaces values of Secrets.
const mask = "••••••"

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
	return text[:end] + ": " + mask
}

// maskSecrets masks Secrets in JSON about an object of a kind.
func maskSecrets(text json.RawMessage, about object.Resource) json.RawMessage {
	ofSecret := about.GroupKind().IsSecret()
	if text == nil || !ofSecret && !mayHaveSecret(text) {
		return text
	}
	return transformJSON(text, func(value any) any {
		members, is := value.(map[string]any)
		if !is {
			return value
		}
		if object.IsSecret(members) {
			object.MaskSecret(members, mask)
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

// maskParts masks parts of a Secret that have no kind of their own: patches and changed
// fields.
func maskParts(members map[string]any) {
	if patch, is := members["patch"].(map[string]any); is {
		object.MaskSecret(patch, mask)
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
	for _, side := range [...]string{"from", "to", "value"} {
		if change[side] != nil && object.IsSecretField(path) {
			change[side] = mask
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
		return json.RawMessage(strconv.Quote(mask))
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
