package cli

import (
	"slices"
	"strings"
)

// style is how a text looks on a terminal, as the codes of ECMA-48 have it.
type style string

// The tones.
const (
	plain  style = ""
	bold   style = "1"
	red    style = "31"
	green  style = "32"
	yellow style = "33"
)

// apply is a text in that tone.
func (t style) apply(text string) string {
	if t == plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// styleOf is that of a cell below a heading.
func styleOf(heading, cell string) style {
	switch heading {
	case "ERROR", "LAST ERROR":
		return red
	case "READY", "STATE", "HEALTH":
	default:
		return plain
	}
	word, _, _ := strings.Cut(cell, " ")
	word, _, _ = strings.Cut(word, ",")
	switch {
	case slices.Contains([]string{"True", "Well", "Current"}, word):
		return green
	case slices.Contains([]string{"False", "Failing", "Failed"}, word):
		return red
	case word == "":
		return plain
	}
	return yellow
}

// colored is a line of a table whose cells have tones.
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
