package explore

import (
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// maxListed bounds what one sentence lists.
const maxListed = 3

func shortList(parts []string) string {
	if len(parts) > maxListed {
		parts = append(slices.Clone(parts[:maxListed]), fmt.Sprintf("%d more", len(parts)-maxListed))
	}
	return strings.Join(parts, "; ")
}

func count(n int, of string) string {
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

func orAbsent(value []byte) string {
	switch text := []rune(string(value)); {
	case value == nil:
		return "absent"
	case len(text) > maxValue:
		return string(text[:maxValue]) + "…"
	default:
		return string(text)
	}
}

// fieldChanges returns such as ": spec.image is "b", was "a"".
func fieldChanges(before, after *object.Object) string {
	a, errA := object.Decode(before.JSON())
	b, errB := object.Decode(after.JSON())
	if errA != nil || errB != nil {
		return ""
	}
	var parts []string
	for _, c := range object.Changes(a, b) {
		// Users look for what they wrote, not for what API servers and clients keep beside it.
		if !strings.HasPrefix(c.Path, "metadata.") || strings.HasPrefix(c.Path, "metadata.labels") ||
			strings.HasPrefix(c.Path, "metadata.deletion") {
			parts = append(parts, fmt.Sprintf("%s is %s, was %s", c.Path, orAbsent(c.To), orAbsent(c.From)))
		}
	}
	if len(parts) == 0 {
		return ""
	}
	return " (" + shortList(parts) + ")"
}

func statusMessage(body []byte) string {
	fields, err := object.Decode(body)
	if err != nil {
		return ""
	}
	message, _ := fields["message"].(string)
	return message
}

// encoded returns the JSON of a decoded value, with sorted members.
func encoded(value any) []byte {
	data, err := json.Marshal(value)
	if err != nil {
		panic("encode: " + err.Error()) // It was decoded from JSON.
	}
	return data
}
