package dev

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// tailLines is the number of log lines shown when a process exits.
const tailLines = 20

// output returns the writer for a process: the terminal or a log file.
func (s *session) output(name string) (process.Output, error) {
	if s.ProcessLogs == "" {
		return s.Reporter.Writer(name), nil
	}
	if err := os.MkdirAll(s.ProcessLogs, 0o700); err != nil {
		return nil, fmt.Errorf("create the folder of --process-logs: %w", err)
	}
	file, err := os.OpenFile(filepath.Join(s.ProcessLogs, name+".log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("create the log of process %s: %w", name, err)
	}
	l := &logFile{file: file, terminal: s.Reporter.Writer(name)}
	s.logs = append(s.logs, l)
	return l, nil
}

// logFile is the log of a process. Its last lines are shown when the process exits.
type logFile struct {
	file     *os.File
	terminal *progress.Writer

	mu   sync.Mutex
	tail []byte
}

// Write never fails: a full disk must not stop a process.
func (l *logFile) Write(data []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.file.Write(data)
	l.tail = lastLines(append(l.tail, data...), tailLines)
	return len(data), nil
}

// Flush is called when the process has exited.
func (*logFile) Flush() {}

// show prints the last lines.
func (l *logFile) show() {
	l.mu.Lock()
	defer l.mu.Unlock()
	_, _ = l.terminal.Write(l.tail)
	l.terminal.Flush()
	l.tail = nil
}

func (l *logFile) close() { _ = l.file.Close() }

// lastLines returns at most n lines from the end of a text, including an unfinished one.
func lastLines(text []byte, n int) []byte {
	const longest = 16 << 10
	text = text[max(0, len(text)-longest):]
	from := len(bytes.TrimSuffix(text, []byte("\n")))
	for range n {
		at := bytes.LastIndexByte(text[:from], '\n')
		if at < 0 {
			return text
		}
		from = at
	}
	return bytes.Clone(text[from+1:])
}
