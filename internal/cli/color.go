package cli

import (
	"slices"
	"strings"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// style is an ECMA-48 code for text on a terminal.
type style string

// The styles.
const (
	plain  style = ""
	bold   style = "1"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// apply returns text in the style.
func (t style) apply(text string) string {
	if t == plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// styleOf returns the style of a cell under a header.
func styleOf(heading, cell string) style {
	switch heading {
	case "ERROR", "LAST ERROR":
		return red
	case "READY", "STATE", "HEALTH", "RESULT":
	default:
		return plain
	}
	word, _, _ := strings.Cut(cell, " ")
	word, _, _ = strings.Cut(word, ",")
	switch {
	case slices.Contains([]string{"True", "Synced", "Current", inspect.ReviewAllowed}, word):
		return green
	case slices.Contains([]string{"False", "Failing", "Failed", inspect.ReviewDenied, inspect.ReviewFailed}, word):
		return red
	case word == "":
		return plain
	}
	return yellow
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
		out.WriteString(styleOf(head[i], cell).apply(cell))
		line = line[at+len(cell):]
	}
	return out.String() + line
}
