// Package phrase has the phrases that reports and stories share: counts, lists, values that are cut short, and changes of fields.
package phrase

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxListed bounds what one sentence lists.
const maxListed = 3

// List returns parts in one line, of which it names the first few.
func List(parts []string) string {
	if len(parts) > maxListed {
		parts = append(slices.Clone(parts[:maxListed]), fmt.Sprintf("%d more", len(parts)-maxListed))
	}
	return strings.Join(parts, "; ")
}

// Count returns such as "2 crashes".
func Count(n int, of string) string {
	if n == 1 {
		return "1 " + of
	}
	if of == "crash" {
		of += "e"
	}
	return fmt.Sprintf("%d %ss", n, of)
}

// maxValue is how much of a value a sentence has.
const maxValue = 40

// Value returns a JSON value, cut short.
func Value(value []byte) string {
	switch text := []rune(string(value)); {
	case value == nil:
		return "absent"
	case len(text) > maxValue:
		return string(text[:maxValue]) + "…"
	default:
		return string(text)
	}
}

// Changes returns such as ": spec.image is "b", was "a"".
func Changes(before, after *object.Object) string {
	var parts []string
	for _, c := range object.Changes(object.DecodeOrEmpty(before.JSON()), object.DecodeOrEmpty(after.JSON())) {
		// Users look for what they wrote, not for what API servers and clients keep beside it.
		if !strings.HasPrefix(c.Path, "metadata.") || strings.HasPrefix(c.Path, "metadata.labels") ||
			strings.HasPrefix(c.Path, "metadata.deletion") {
			parts = append(parts, fmt.Sprintf("%s is %s, was %s", c.Path, Value(c.To), Value(c.From)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + List(parts) + ")"
}

// Message returns the message of a Status; empty if it is none.
func Message(body []byte) string {
	message, _ := object.DecodeOrEmpty(body)["message"].(string)
	return message
}

// JSON returns the JSON of a decoded value, with sorted members.
func JSON(value any) json.RawMessage {
	data, err := json.Marshal(value)
	if err != nil {
		panic("encode: " + err.Error()) // It was decoded from JSON.
	}
	return data
}
