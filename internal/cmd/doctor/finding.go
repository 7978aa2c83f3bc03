package doctor

import (
	"fmt"
	"strings"

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

var styles = map[state]output.Style{isOK: output.Green, isWarning: output.Yellow, isFailed: output.Red}

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
}

// fixedBy adds what to do.
func (f finding) fixedBy(fix string) finding {
	f.Fix = fix
	return f
}

// text returns findings as lines, and lists as a line for each item. It leaves it to the terminal to wrap others: what to do
// may be a command to copy.
func text(found []finding, color bool) string {
	const indent = len(isNotChecked) + 2
	var out strings.Builder
	for _, f := range found {
		cell, space := string(f.State), strings.Repeat(" ", indent-len(f.State))
		if color {
			cell = styles[f.State].Apply(cell)
		}
		said := output.Clean(f.Name + ": " + f.Message)
		if strings.Count(said, "; ") > 1 {
			said = strings.ReplaceAll(said, "; ", ";\n"+strings.Repeat(" ", indent+2))
		}
		out.WriteString(cell + space + said + "\n")
		if f.Fix != "" {
			out.WriteString(strings.Repeat(" ", indent) + "→ " + output.Clean(f.Fix) + "\n")
		}
	}
	return out.String()
}
