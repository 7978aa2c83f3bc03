package cli

import (
	"strings"
	"unicode/utf8"

	"github.com/setpoint-dev/setpoint/internal/inspect"
)

// brevity is how short the name of a controller is made.
type brevity int

// A name is whole, has no group of its kind, or is what is behind the slash.
const (
	whole brevity = iota
	groupless
	shortest
)

// brief is a short form of a controller's name that means no other of them: one that
// commands take as they take the name.
func brief(name string, all []inspect.Controller, as brevity) string {
	kind, last, split := strings.Cut(name, "/")
	if !split {
		return name
	}
	short := last
	if as == groupless {
		kind, _, _ = strings.Cut(kind, ".")
		short = kind + "/" + last
	}
	if as == whole || !meansOne(short, name, all) {
		return name
	}
	return short
}

// meansOne says that of all controllers a word means those of that name alone.
func meansOne(word, name string, all []inspect.Controller) bool {
	found := false
	for i := range all {
		if !means(word, all[i]) {
			continue
		}
		if all[i].Name != name {
			return false
		}
		found = true
	}
	return found
}

// abbreviate shortens the names in the first column of a table of controllers as little as
// needed for its headings to fit a width, if that is possible; 0 is any width. What is in the
// last column may be of any length.
func abbreviate(rows []row, head []string, all []inspect.Controller, width int) {
	if width == 0 {
		return
	}
	rest := 0
	for i := 1; i < len(head); i++ {
		rest += columnGap + columnWidth(rows, head, i)
	}
	for as := whole; as <= shortest; as++ {
		for i := range rows {
			rows[i].cells[0] = brief(rows[i].name, all, as)
		}
		if columnWidth(rows, head, 0)+rest <= width {
			return
		}
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
