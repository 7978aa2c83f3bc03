package cli

import (
	"strings"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// shortName returns the part of a controller's name after the slash, if no other controller
// matches it, else the whole name. Commands accept both.
func shortName(name string, all []inspect.Controller) string {
	_, last, split := strings.Cut(name, "/")
	if !split || !matchesOnly(last, name, all) {
		return name
	}
	return last
}

// matchesOnly reports whether word matches the controller of that name and no other.
func matchesOnly(word, name string, all []inspect.Controller) bool {
	found := false
	for i := range all {
		if !matchesController(word, all[i]) {
			continue
		}
		if all[i].Name != name {
			return false
		}
		found = true
	}
	return found
}

// abbreviate shortens the names in the first column if the headers do not fit into width
// otherwise. A width of 0 is unlimited.
func abbreviate(rows []row, head []string, all []inspect.Controller, width int) {
	if width == 0 {
		return
	}
	needed := 0
	for i := range head {
		needed += columnWidth(rows, head, i) + columnGap
	}
	if needed-columnGap <= width {
		return
	}
	for i := range rows {
		rows[i].cells[0] = shortName(rows[i].name, all)
	}
}

// columnWidth returns the width of a column in characters; for the last column, that of its
// header.
func columnWidth(rows []row, head []string, column int) int {
	width := len(head[column])
	for _, r := range rows {
		if column < len(head)-1 {
			width = max(width, utf8.RuneCountInString(clean(r.cells[column])))
		}
	}
	return width
}
