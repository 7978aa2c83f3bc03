package dev

import (
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/setpoint-dev/setpoint/internal/dev/progress"
)

// tailLines is the number of log lines shown when a process exits.
const tailLines = 20

// recentOutput is what a process prints: on the terminal, or in a log file. It keeps the last lines of those that are not shown.
type recentOutput struct {
	reporter *progress.Reporter
	terminal *progress.Writer
	log      *os.File // nil for the terminal
	splitter *progress.Writer

	mu sync.Mutex
	// lines are the last that were not shown.
	lines []string
}

// newRecentOutput returns the output of a process; without a folder for logs it is shown on the terminal.
func newRecentOutput(reporter *progress.Reporter, logs, name string) (r *recentOutput, err error) {
	r = &recentOutput{reporter: reporter, terminal: reporter.Writer(name)}
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
	}
	return len(data), nil
}

// Flush is called when the process has exited.
func (r *recentOutput) Flush() {
	r.splitter.Flush()
}

func (r *recentOutput) add(line []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.log == nil && !r.reporter.HooksHidden.Load() {
		r.lines = nil // Those before it are old.
		fmt.Fprintf(r.terminal, "%s\n", line)
		return
	}
	r.lines = append(r.lines, string(line))
	r.lines = r.lines[max(0, len(r.lines)-tailLines):]
}

// showTail prints the last lines that were not shown.
func (r *recentOutput) showTail() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, line := range r.lines {
		fmt.Fprintln(r.terminal, line)
	}
	r.lines = nil
}

func (r *recentOutput) close() {
	if r.log != nil {
		_ = r.log.Close()
	}
}
