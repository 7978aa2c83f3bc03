package call

import (
	"strings"
	"unicode"
)

// Quote returns at most limit bytes of s on one line.
func Quote(s string, limit int) string {
	if limit == 0 {
		return ""
	}
	s = strings.ToValidUTF8(s[:min(len(s), 4*limit)], "?")
	words := strings.FieldsFunc(s, func(c rune) bool { return unicode.IsSpace(c) || !unicode.IsPrint(c) })
	line := strings.Join(words, " ")
	if len(line) <= limit {
		return line
	}
	return strings.ToValidUTF8(line[:limit], "") + "…"
}
