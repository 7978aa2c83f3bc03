package recording

import (
	"io"
	"time"
)

// StreamInterval is how often a Stream writes at least, so that its reader sees that the process is alive.
const StreamInterval = 5 * time.Second

// Stream is a recording without an end, for one reader.
type Stream struct {
	writer *Writer
	latest time.Time
}

// NewStream returns a Stream, which begins at once: its reader has missed nothing since.
func NewStream(out io.Writer, segment Segment) *Stream {
	s := &Stream{writer: NewWriter(out, segment), latest: time.Now()}
	s.writer.AddTotals(Totals{})
	_ = s.writer.Flush() // The writer keeps its error.
	return s
}

// StreamDelay is how long a call is on its way to the reader of a Stream, about.
const StreamDelay = 100 * time.Millisecond

// FlushInterval implements Sink.
func (*Stream) FlushInterval() time.Duration { return StreamDelay }

// Writer implements Sink.
func (s *Stream) Writer() (*Writer, error) {
	if time.Since(s.latest) >= StreamInterval {
		s.latest = time.Now()
		s.writer.AddTotals(Totals{})
	}
	return s.writer, nil
}
