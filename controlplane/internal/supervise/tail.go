package supervise

import (
	"os"
	"strings"
)

const (
	lastLines = 8
	lineWidth = 300
)

// Tail returns the last lines of a log, indented; "" if it cannot be read.
func Tail(path string) string {
	text, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimSpace(string(text)), "\n")
	lines = lines[max(0, len(lines)-lastLines):]
	for i, line := range lines {
		if len(line) > lineWidth {
			lines[i] = strings.ToValidUTF8(line[:lineWidth], "") + "…"
		}
	}
	return "  " + strings.Join(lines, "\n  ")
}
