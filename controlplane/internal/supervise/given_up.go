package supervise

import (
	"fmt"
	"io"
	"os"
	"strings"
)

const (
	lastLines = 8
	lastBytes = 16 << 10
	lineWidth = 300
)

// GivenUpError reports a process that kept exiting, with its exit error and the end of its
// log.
type GivenUpError struct {
	Name string
	Exit error
	Log  string
	Tail string // the last lines of the log
}

func (e *GivenUpError) Error() string {
	text := fmt.Sprintf("%s keeps ending (%v); its log is %s", e.Name, e.Exit, e.Log)
	if e.Tail == "" {
		return text
	}
	return text + ", which ends:\n" + e.Tail
}

func (e *GivenUpError) Unwrap() error { return e.Exit }

func (p *Process) givenUp(exit error) error {
	return &GivenUpError{Name: p.spec.Name, Exit: exit, Log: p.spec.Log, Tail: Tail(p.spec.Log)}
}

// Tail returns the last lines of a file, indented, or nothing if there are none
// to be had.
func Tail(path string) string {
	file, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer file.Close()
	if info, err := file.Stat(); err == nil && info.Size() > lastBytes {
		_, _ = file.Seek(-lastBytes, io.SeekEnd)
	}
	text, err := io.ReadAll(io.LimitReader(file, lastBytes))
	if err != nil {
		return ""
	}
	lines := strings.Split(strings.TrimRight(string(text), "\n"), "\n")
	lines = lines[max(0, len(lines)-lastLines):]
	for i, line := range lines {
		if len(line) > lineWidth {
			lines[i] = strings.ToValidUTF8(line[:lineWidth], "") + "…"
		}
	}
	if len(lines) == 1 && lines[0] == "" {
		return ""
	}
	return "  " + strings.Join(lines, "\n  ")
}
