package child

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

const (
	// maxLine limits a line of the log.
	maxLine = 4 << 10
	// firstLines and lastLines are how many lines an ExitError has.
	firstLines, lastLines = 3, 5
	// maxLines is how many lines of a pool are logged within linesInterval.
	maxLines      = 200
	linesInterval = time.Second
	// maxBytes is how much of the standard error of a child is read within bytesInterval: a child that writes more
	// waits, instead of using a core of this process for lines that are dropped.
	maxBytes      = 128 << 10
	bytesInterval = 100 * time.Millisecond
)

// stderr splits the standard error of a child into lines.
type stderr struct {
	log    func(object []byte, line string)
	budget *lineBudget
	quiet  bool
	// call is the last call. Its lines may arrive after the response.
	call atomic.Pointer[Call]
	// since and bytes are of the current bytesInterval, slowed means that the log says so. Only Write uses them.
	since  time.Time
	bytes  int
	slowed bool

	mu      sync.Mutex
	partial []byte
	head    []string
	tail    []string
}

// begin begins the lines of a call. Those of the start are part of the first one.
func (s *stderr) begin(limits *Call) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.call.Swap(limits) != nil {
		s.head, s.tail = nil, nil
	}
}

// Write implements io.Writer. One goroutine calls it. It waits if there was too much.
func (s *stderr) Write(data []byte) (int, error) {
	s.split(data)
	s.throttle(len(data))
	return len(data), nil
}

// throttle waits until more may be read.
func (s *stderr) throttle(read int) {
	now := time.Now()
	if now.Sub(s.since) > bytesInterval {
		s.since, s.bytes = now, 0
	}
	if s.bytes += read; s.bytes <= maxBytes {
		return
	}
	if !s.slowed && !s.quiet && s.log != nil {
		s.slowed = true
		s.log(nil, fmt.Sprintf("the process has to wait: it writes more than %d KiB in %s to its standard error",
			maxBytes>>10, bytesInterval))
	}
	<-time.After(time.Until(s.since.Add(bytesInterval)))
}

// split keeps at most one line of limited length.
func (s *stderr) split(data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for rest := data; len(rest) > 0; {
		line, after, complete := bytes.Cut(rest, []byte("\n"))
		if room := maxLine - len(s.partial); room > 0 {
			s.partial = append(s.partial, line[:min(room, len(line))]...)
		}
		if rest = after; complete {
			s.endLine()
		}
	}
}

func (s *stderr) endLine() {
	line := strings.TrimRight(strings.ToValidUTF8(string(s.partial), "�"), "\r")
	if s.partial = s.partial[:0]; line == "" {
		return
	}
	if len(s.head) < firstLines {
		s.head = append(s.head, line)
	}
	if s.tail = append(s.tail, line); len(s.tail) > lastLines {
		s.tail = slices.Delete(s.tail, 0, 1)
	}
	if !s.quiet {
		s.write(line)
	}
}

func (s *stderr) write(line string) {
	var object []byte
	if now := s.call.Load(); now != nil {
		object = now.Object
		if now.Print != nil {
			now.Print(line)
		}
	}
	s.budget.log(s.log, object, line)
}

// ends returns the first and the last lines, also one without an end.
func (s *stderr) ends() (head, tail []string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.partial) > 0 {
		s.endLine()
	}
	return slices.Clone(s.head), slices.Clone(s.tail)
}

// lineBudget limits log lines per time.
type lineBudget struct {
	mu      sync.Mutex
	since   time.Time
	lines   int
	dropped int
}

// log logs a line if there have not been too many. The first line of the next interval says how
// many were dropped.
func (b *lineBudget) log(log func(object []byte, line string), object []byte, line string) {
	if log == nil {
		return
	}
	b.mu.Lock()
	dropped := 0
	if now := time.Now(); now.Sub(b.since) > linesInterval {
		dropped = b.dropped
		b.since, b.lines, b.dropped = now, 0, 0
	}
	b.lines++
	over := b.lines > maxLines
	if over {
		b.dropped++
	}
	b.mu.Unlock()
	if dropped > 0 {
		log(nil, fmt.Sprintf("%d lines were dropped: more than %d in a second", dropped, maxLines))
	}
	if !over {
		log(object, line)
	}
}

// LogTo returns a Config.Log that logs the lines of a controller's hook.
func LogTo(log *slog.Logger, controller string) func(about []byte, line string) {
	return func(about []byte, line string) {
		attributes := []any{"controller", controller, "line", line}
		if o, err := object.Parse(about); err == nil {
			attributes = append(attributes, "object", o.Ref().String())
		}
		log.Info("output of the hook", attributes...)
	}
}
