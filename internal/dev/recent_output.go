package dev

import (
	"regexp"
	"slices"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dashboard/objects"
	"github.com/setpoint-dev/setpoint/internal/dashboard/timeline"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/process"
)

// The limits of a recentOutput. Older lines are dropped, and longer ones cut.
const (
	maxRecentLines = 1000
	maxRecentBytes = 256 << 10
	maxRecentLine  = 4 << 10
)

// recentOutput keeps the last lines of a process for the dashboard.
type recentOutput struct {
	process.Output
	splitter *progress.Writer

	mu    sync.Mutex
	lines []timeline.OutputLine
	bytes int
}

// newRecentOutput returns an Output that also passes everything on.
func newRecentOutput(to process.Output) *recentOutput {
	r := &recentOutput{Output: to}
	r.splitter = progress.NewWriter(r.add)
	return r
}

// Write implements process.Output.
func (r *recentOutput) Write(data []byte) (int, error) {
	_, _ = r.splitter.Write(data) // It never fails.
	return r.Output.Write(data)
}

// Flush implements process.Output.
func (r *recentOutput) Flush() {
	r.splitter.Flush()
	r.Output.Flush()
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

// programs returns the processes with their output, for the dashboard.
func (s *session) programs() []objects.Program {
	all := make([]objects.Program, 0, len(s.locals))
	for _, l := range s.locals {
		serves := func(address string) bool { return l.Service != nil && l.Service.Matches(address) }
		all = append(all, objects.Program{Name: l.Name, Serves: serves, Output: l.recent.list})
	}
	return all
}
