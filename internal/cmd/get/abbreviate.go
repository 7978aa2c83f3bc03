package get

import (
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/cli/processes"
	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// abbreviate shortens the names in the first column if the headers do not fit into width
// otherwise. A width of 0 is unlimited.
func abbreviate(rows []output.Row, head []string, all []inspect.Controller, width int) {
	if width == 0 {
		return
	}
	needed := 0
	for i := range head {
		needed += columnWidth(rows, head, i) + output.ColumnGap
	}
	if needed-output.ColumnGap <= width {
		return
	}
	for i := range rows {
		rows[i].Cells[0] = processes.ShortName(rows[i].Name, all)
	}
}

// columnWidth returns the width of a column in characters; for the last column, that of its
// header.
func columnWidth(rows []output.Row, head []string, column int) int {
	width := len(head[column])
	for _, r := range rows {
		if column < len(head)-1 {
			width = max(width, utf8.RuneCountInString(output.Clean(r.Cells[column])))
		}
	}
	return width
}
