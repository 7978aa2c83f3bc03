package script

import (
	"fmt"
	"io"
	"strings"
)

const (
	// maxLogLines and maxLogLine limit what one call logs.
	maxLogLines = 100
	maxLogLine  = 4 << 10
)

// callLog writes the log lines of one call.
type callLog struct {
	out   io.Writer
	lines int
}

func (l *callLog) line(text string) {
	l.lines++
	if l.lines <= maxLogLines {
		l.write(text)
	}
}

// end reports lines that were left out.
func (l *callLog) end() {
	if more := l.lines - maxLogLines; more > 0 {
		l.write(fmt.Sprintf("%d more lines; a call may log %d", more, maxLogLines))
	}
}

// write ignores errors: the response has the same one.
func (l *callLog) write(text string) {
	if len(text) > maxLogLine {
		text = strings.ToValidUTF8(text[:maxLogLine], "") + "…"
	}
	_, _ = l.out.Write((&Output{Log: &text}).line())
}
