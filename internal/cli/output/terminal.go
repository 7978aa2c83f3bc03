package output

import (
	"io"
	"os"
	"slices"
	"strings"

	"golang.org/x/term"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// NewReporter returns a progress reporter for a stream: animated on a terminal, with colors
// unless NO_COLOR is set (https://no-color.org).
func NewReporter(out io.Writer) *progress.Reporter {
	o := progress.Options{Out: out}
	if IsTerminal(out) && os.Getenv("TERM") != "dumb" {
		o.Live = true
		o.Color = WantsColor(out)
		o.Width = TerminalWidth(out)
	}
	return progress.New(o)
}

// TerminalWidth returns the width of the terminal behind a stream; 0 if it is unknown.
func TerminalWidth(out io.Writer) int {
	if !IsTerminal(out) {
		return 0
	}
	width, _, _ := term.GetSize(descriptor(out))
	return width
}

// WantsColor reports whether to print colors to a stream.
func WantsColor(out io.Writer) bool {
	return IsTerminal(out) && os.Getenv("TERM") != "dumb" && os.Getenv("NO_COLOR") == ""
}

// IsTerminal reports whether a stream is a terminal.
func IsTerminal(stream any) bool {
	fd := descriptor(stream)
	return fd >= 0 && term.IsTerminal(fd)
}

func descriptor(stream any) int {
	if file, ok := stream.(*os.File); ok {
		return int(file.Fd())
	}
	return -1
}

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

// IndentDiff indents the lines of a diff, which begin with their signs.
func IndentDiff(text, indent string, color bool) string {
	var out strings.Builder
	for line := range strings.Lines(text) {
		line = strings.TrimSuffix(line, "\n")
		if color {
			line = map[byte]Style{'-': Red, '+': Green}[line[0]].Apply(line)
		}
		out.WriteString(indent + line + "\n")
	}
	return out.String()
}

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
