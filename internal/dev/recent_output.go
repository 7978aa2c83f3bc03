package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
)

// The limits of a recentOutput. Older lines are dropped, and longer ones cut.
const (
	maxRecentLines = 1000
	maxRecentBytes = 256 << 10
	maxRecentLine  = 4 << 10
	// tailLines is the number of log lines shown when a process exits.
	tailLines = 20
)

// recentOutput is what a process prints: on the terminal, or in a log file. It keeps the last lines for the dashboard.
type recentOutput struct {
	terminal *progress.Writer
	log      *os.File // nil for the terminal
	splitter *progress.Writer

	mu    sync.Mutex
	lines []timeline.OutputLine
	bytes int
	// hidden counts the lines that are only in the log.
	hidden int
}

// newRecentOutput returns the output of a process; without a folder for logs it is shown on the terminal.
func newRecentOutput(terminal *progress.Writer, logs, name string) (r *recentOutput, err error) {
	r = &recentOutput{terminal: terminal}
	r.splitter = progress.NewWriter(r.add)
	if logs == "" {
		return r, nil
	}
	if err = os.MkdirAll(logs, 0o700); err == nil {
		r.log, err = os.OpenFile(filepath.Join(logs, name+".log"), os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	}
	if err != nil {
		return nil, fmt.Errorf("create the log of process %s (--process-logs): %w", name, err)
	}
	return r, nil
}

// Write never fails: a full disk must not stop a process.
func (r *recentOutput) Write(data []byte) (int, error) {
	_, _ = r.splitter.Write(data)
	if r.log != nil {
		_, _ = r.log.Write(data)
		return len(data), nil
	}
	return r.terminal.Write(data)
}

// Flush is called when the process has exited.
func (r *recentOutput) Flush() {
	r.splitter.Flush()
	r.terminal.Flush()
}

// terminalCode is a sequence that sets a color, moves the cursor or sets the title of a terminal.
var terminalCode = regexp.MustCompile(`\x1b(?:\[[\x30-\x3f]*[\x20-\x2f]*[\x40-\x7e]|\][^\x07\x1b]*(?:\x07|\x1b\\))`)

func (r *recentOutput) add(text []byte) {
	line := terminalCode.ReplaceAll(text, nil)
	if len(line) > maxRecentLine {
		line = append(slices.Clone(line[:maxRecentLine]), "…"...)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.lines = append(r.lines, timeline.OutputLine{At: time.Now(), Text: string(line)})
	r.bytes += len(line)
	r.hidden++
	for len(r.lines) > maxRecentLines || r.bytes > maxRecentBytes {
		r.bytes -= len(r.lines[0].Text)
		r.lines[0].Text = ""
		r.lines = r.lines[1:]
	}
}

// list returns the lines, oldest first.
func (r *recentOutput) list() []timeline.OutputLine {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Clone(r.lines)
}

// showTail prints the last lines that are only in the log.
func (r *recentOutput) showTail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log != nil {
		for _, line := range r.lines[max(0, len(r.lines)-min(r.hidden, tailLines)):] {
			fmt.Fprintln(r.terminal, line.Text)
		}
	}
	r.hidden = 0
}

func (r *recentOutput) close() {
	if r.log != nil {
		_ = r.log.Close()
	}
}
