package progress

import (
	"bytes"
	"sync"
)

// longestLine is the length at which unfinished lines are broken.
const longestLine = 64 << 10

// Writer calls a function with each line that is written to it, one at a time. Flush passes on
// an unfinished last line.
type Writer struct {
	line func(text []byte)

	mu      sync.Mutex
	pending []byte
}

// NewWriter returns a Writer; line must not keep the text.
func NewWriter(line func(text []byte)) *Writer { return &Writer{line: line} }

// Writer returns a Writer for the output of name. It shows lines with the name as prefix. Lines
// of several Writers do not mix, and each has its own color.
func (r *Reporter) Writer(name string) *Writer {
	colors := []string{"36", "35", "33", "34", "32", "96", "95", "93"}
	r.mu.Lock()
	color := colors[r.writers%len(colors)]
	r.writers++
	r.mu.Unlock()
	prefix := r.paint(color, name+" |") + " "
	return NewWriter(func(text []byte) { r.Line("%s%s", prefix, text) })
}

// HookWriter is Writer for the output of hooks, unless HooksHidden.
func (r *Reporter) HookWriter(name string) *Writer {
	shown := r.Writer(name).line
	return NewWriter(func(text []byte) {
		if !r.HooksHidden.Load() {
			shown(text)
		}
	})
}

// Write never fails: a broken terminal must not stop a process.
func (w *Writer) Write(data []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.pending = append(w.pending, data...)
	for {
		end := bytes.IndexByte(w.pending, '\n')
		if end < 0 && len(w.pending) < longestLine {
			return len(data), nil
		}
		w.pass(end)
	}
}

// Flush writes an unfinished line.
func (w *Writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		w.pass(-1)
	}
}

// pass passes on the pending bytes up to end.
func (w *Writer) pass(end int) {
	next := end + 1
	if end < 0 {
		end, next = len(w.pending), len(w.pending)
	}
	w.line(bytes.TrimRight(w.pending[:end], "\r"))
	w.pending = w.pending[next:]
}
