package progress

import (
	"bytes"
	"sync"
)

// longestLine is where a line without an end is broken.
const longestLine = 64 << 10

// Writer writes whole lines, each after the name of who wrote it. Lines of
// several Writers do not mix. Each Writer of a Reporter has its own colour.
// An unfinished last line is written by Flush.
type Writer struct {
	reporter *Reporter
	prefix   string

	mu      sync.Mutex
	pending []byte
}

// Writer makes a Writer for the output of name.
func (r *Reporter) Writer(name string) *Writer {
	colors := []string{"36", "35", "33", "34", "32", "96", "95", "93"}
	r.mu.Lock()
	color := colors[r.writers%len(colors)]
	r.writers++
	r.mu.Unlock()
	return &Writer{reporter: r, prefix: r.paint(color, name+" |") + " "}
}

// Write never fails: an unwritable terminal must not stop a process.
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

// Flush writes what is left of an unfinished line.
func (w *Writer) Flush() {
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(w.pending) > 0 {
		w.line(-1)
	}
}

// line writes the pending bytes up to end, or all of them.
func (w *Writer) line(end int) {
	next := end + 1
	if end < 0 {
		end, next = len(w.pending), len(w.pending)
	}
	w.reporter.Line("%s%s", w.prefix, bytes.TrimRight(w.pending[:end], "\r"))
	w.pending = w.pending[next:]
}
