package cli

import (
	"slices"
	"strings"
)

// tone is how a text looks on a terminal, as the codes of ECMA-48 have it.
type tone string

// The tones.
const (
	plain  tone = ""
	bold   tone = "1"
	red    tone = "31"
	green  tone = "32"
	yellow tone = "33"
)

// on is a text in that tone.
func (t tone) on(text string) string {
	if t == plain || text == "" {
		return text
	}
	return "\x1b[" + string(t) + "m" + text + "\x1b[0m"
}

// toneOf is that of a cell below a heading.
func toneOf(heading, cell string) tone {
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
		out.WriteString(toneOf(head[i], cell).on(cell))
		line = line[at+len(cell):]
	}
	return out.String() + line
}
