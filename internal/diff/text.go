package diff

import (
	"fmt"
	"strings"

	"github.com/rogpeppe/go-internal/diff"
)

// Line is a line of a diff.
type Line struct {
	// Sign is '-' for a removed line, '+' for an added one, ' ' for an unchanged one, and
	// '@' for omitted unchanged lines: Skipped is their number, and Text is empty.
	Sign    rune
	Text    string
	Skipped int
}

// Text is the diff of two texts.
type Text struct {
	Lines []Line
	// Added and Removed are the numbers of these lines.
	Added, Removed int
	// Truncated is set if lines are missing at the end.
	Truncated bool
}

// maxLines limits the lines of a diff.
const maxLines = 2000

// Texts compares two texts line by line.
func Texts(before, after string) (text Text) {
	before, after = endLine(before), endLine(after)
	shown := 0 // lines of before that are in the diff or omitted
	for line := range strings.Lines(unified(before, after)) {
		line = strings.TrimSuffix(line, "\n")
		switch line[0] {
		case '@':
			var from, count int
			_, _ = fmt.Sscanf(line, "@@ -%d,%d", &from, &count) // It always has both.
			text.skip(from - min(count, 1) - shown)
			shown = from - min(count, 1)
			continue
		case '-':
			text.Removed++
			shown++
		case '+':
			text.Added++
		default:
			shown++
		}
		text.add(Line{Sign: rune(line[0]), Text: line[1:]})
	}
	text.skip(strings.Count(before, "\n") - shown)
	return text
}

// Signed returns the lines behind their signs, invisible characters escaped. Omitted lines are an ellipsis.
func (t Text) Signed() string {
	var out strings.Builder
	for _, line := range t.Lines {
		if line.Sign == '@' {
			out.WriteString("  …\n")
			continue
		}
		fmt.Fprintf(&out, "%c %s\n", line.Sign, EscapeInvisible(line.Text))
	}
	if t.Truncated {
		out.WriteString("  …\n")
	}
	return out.String()
}

func endLine(text string) string {
	if text == "" || strings.HasSuffix(text, "\n") {
		return text
	}
	return text + "\n"
}

// unified returns the unified diff of two texts, without its header.
func unified(before, after string) string {
	all := string(diff.Diff("", []byte(before), "", []byte(after)))
	if at := strings.Index(all, "\n@@"); at >= 0 {
		return all[at+1:]
	}
	return ""
}

// skip adds a number of omitted lines.
func (t *Text) skip(n int) {
	if n > 0 {
		t.add(Line{Sign: '@', Skipped: n})
	}
}

func (t *Text) add(line Line) {
	if t.Truncated = len(t.Lines) == maxLines; !t.Truncated {
		t.Lines = append(t.Lines, line)
	}
}
