package progress

import (
	"bytes"
	"sync"
)

// longestLine is the length at which unfinished lines are broken.
const longestLine = 64 << 10

// Writer writes whole lines, each with a name as prefix. Lines of several Writers do not
// mix, and each has its own color. Flush writes an unfinished last line.
type Writer struct {
	reporter *Reporter
	prefix   string

	mu      sync.Mutex
	pending []byte
}

// Writer returns a Writer for the output of name.
func (r *Reporter) Writer(name string) *Writer {
	colors := []string{"36", "35", "33", "34", "32", "96", "95", "93"}
	r.mu.Lock()
	color := colors[r.writers%len(colors)]
	r.writers++
	r.mu.Unlock()
	return &Writer{reporter: r, prefix: r.paint(color, name+" |") + " "}
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
		w.line(end)
	}
}

// Flush writes an unfinished line.
func (w *Writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		w.line(-1)
	}
}

// line writes the pending bytes up to end.
func (w *Writer) line(end int) {
	next := end + 1
	if end < 0 {
		end, next = len(w.pending), len(w.pending)
	}
	w.reporter.Line("%s%s", w.prefix, bytes.TrimRight(w.pending[:end], "\r"))
	w.pending = w.pending[next:]
}
