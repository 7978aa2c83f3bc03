package output

import (
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// Style is an ECMA-48 code for text on a terminal.
type Style string

// The styles.
const (
	Plain  Style = ""
	Bold   Style = "1"
	Red    Style = "31"
	Green  Style = "32"
	Yellow Style = "33"
)

// Apply returns text in the style.
func (t Style) Apply(text string) string {
	if t == Plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// StyleOf returns the style of a cell under a header.
func StyleOf(heading, cell string) Style {
	switch heading {
	case "ERROR", "LAST ERROR":
		return Red
	case "READY", "STATE", "HEALTH", "RESULT":
	default:
		return Plain
	}
	word, _, _ := strings.Cut(cell, " ")
	word, _, _ = strings.Cut(word, ",")
	switch {
	case slices.Contains([]string{"True", "Synced", "Current", inspect.ReviewAllowed}, word):
		return Green
	case slices.Contains([]string{"False", "Failing", "Failed", inspect.ReviewDenied, inspect.ReviewFailed}, word):
		return Red
	case word == "":
		return Plain
	}
	return Yellow
}

// colored returns a table row with its cells styled.
func colored(line string, head, cells []string) string {
	var out strings.Builder
	for i, cell := range cells {
		at := strings.Index(line, cell)
		if cell == "" || at < 0 || i >= len(head) {
			continue
		}
		out.WriteString(line[:at])
		out.WriteString(StyleOf(head[i], cell).Apply(cell))
		line = line[at+len(cell):]
	}
	return out.String() + line
}
