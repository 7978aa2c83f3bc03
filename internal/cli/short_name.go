package cli

import (
	"strings"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/dashboard/model"
)

// shortName is a short form of a controller's name that means no other of them, one that
// commands take too: what is behind the slash.
func shortName(name string, all []model.Controller) string {
	_, last, split := strings.Cut(name, "/")
	if !split || !matchesOnly(last, name, all) {
		return name
	}
	return last
}

// matchesOnly says that of all controllers a word means those of that name alone.
func matchesOnly(word, name string, all []model.Controller) bool {
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

// abbreviate shortens the names in the first column of a table of controllers where its
// headings would not fit a width otherwise; 0 is any width. The last column may be of any
// width.
func abbreviate(rows []row, head []string, all []model.Controller, width int) {
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

// columnWidth is how many characters a column takes; the last one those of its heading.
func columnWidth(rows []row, head []string, column int) int {
	width := len(head[column])
	for _, r := range rows {
		if column < len(head)-1 {
			width = max(width, utf8.RuneCountInString(clean(r.cells[column])))
		}
	}
	return width
}
