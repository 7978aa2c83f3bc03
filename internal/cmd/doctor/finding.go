package doctor

import (
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/cli/output"
)

// state is the result of a check.
type state string

// The states.
const (
	isOK         state = "ok"
	isWarning    state = "warning"
	isFailed     state = "failed"
	isNotChecked state = "not checked"
)

// style returns the colour of a state.
func (s state) style() output.Style {
	return map[state]output.Style{isOK: output.Green, isWarning: output.Yellow, isFailed: output.Red}[s]
}

// because returns a finding with a reason.
func (s state) because(format string, args ...any) finding {
	return finding{State: s, Message: fmt.Sprintf(format, args...)}
}

// finding is what a check found, and what to do unless it is ok.
type finding struct {
	Name    string `json:"name"`
	State   state  `json:"state"`
	Message string `json:"message"`
	Fix     string `json:"fix,omitempty"`
	// Details are all items of a list of which Message has the first.
	Details []string `json:"details,omitempty"`
}

// fixedBy adds what to do.
func (f finding) fixedBy(fix string) finding {
	f.Fix = fix
	return f
}

// listing adds the first items of a list to the message, and all of them as details.
func (f finding) listing(items []string) finding {
	const most = 3
	f.Message += strings.Join(items[:min(most, len(items))], "; ")
	if more := len(items) - most; more > 0 {
		f.Message += fmt.Sprintf("; and %d more", more)
	}
	f.Details = items
	return f
}

const (
	// indent is the width of the column of states.
	indent = len(isNotChecked) + 2
	// minWidth is the least width of the other column.
	minWidth = 20
)

// text returns findings in lines of a width; 0 is unlimited.
func text(found []finding, width int, color bool) string {
	var out strings.Builder
	for _, f := range found {
		lines := wrap(f.Name+": "+f.Message, width-indent)
		if f.Fix != "" {
			lines = slices.Concat(lines, wrap("→ "+f.Fix, width-indent))
		}
		cell := fmt.Sprintf("%-*s", indent, f.State)
		if color {
			cell = strings.Replace(cell, string(f.State), f.State.style().Apply(string(f.State)), 1)
		}
		for _, line := range lines {
			out.WriteString(cell + line + "\n")
			cell = strings.Repeat(" ", indent)
		}
	}
	return out.String()
}

// wrap breaks a text at spaces. Longer words stay whole.
func wrap(text string, width int) (lines []string) {
	text = output.Clean(text)
	if width <= 0 {
		return []string{text}
	}
	for _, word := range strings.Fields(text) {
		last := len(lines) - 1
		if last < 0 || utf8.RuneCountInString(lines[last]+" "+word) > max(width, minWidth) {
			lines = append(lines, word)
			continue
		}
		lines[last] += " " + word
	}
	return lines
}
