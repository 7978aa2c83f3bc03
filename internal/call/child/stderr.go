package child

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
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
	// slowed means that the log says that the child has to wait. Only ReadFrom uses it.
	slowed bool
	// pipe is what is read, once ready is closed.
	pipe  syscall.RawConn
	ready chan struct{}

	mu     sync.Mutex
	buffer [4 << 10]byte
	// since and bytes are of the current bytesInterval.
	since   time.Time
	bytes   int
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

// Write implements io.Writer for package exec, which calls ReadFrom.
func (s *stderr) Write([]byte) (int, error) { return 0, errors.ErrUnsupported }

// ReadFrom reads the pipe of the child to its end. It waits if there was too much.
func (s *stderr) ReadFrom(file io.Reader) (_ int64, err error) {
	s.pipe, err = file.(interface {
		SyscallConn() (syscall.RawConn, error)
	}).SyscallConn()
	close(s.ready)
	for n := 1; n > 0 && err == nil; s.throttle() {
		err = s.pipe.Read(func(fd uintptr) bool {
			n = s.readOnce(fd)
			return n >= 0
		})
	}
	return 0, err
}

// catchUp reads what the child has written so far, unless that is too much: what precedes a response is not of the next call.
func (s *stderr) catchUp() {
	<-s.ready
	_ = s.pipe.Control(func(fd uintptr) { // It fails when all is read.
		for s.wait() <= 0 && s.readOnce(fd) > 0 {
		}
	})
}

// readOnce returns the number of bytes that it has read: 0 at the end, and less if there are none yet.
func (s *stderr) readOnce(fd uintptr) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n, err := syscall.Read(int(fd), s.buffer[:])
	switch {
	case errors.Is(err, syscall.EAGAIN):
		return -1
	case err != nil:
		return 0
	}
	if now := time.Now(); now.Sub(s.since) > bytesInterval {
		s.since, s.bytes = now, 0
	}
	s.bytes += n
	s.split(s.buffer[:n])
	return n
}

// wait returns how long to wait until more may be read.
func (s *stderr) wait() time.Duration {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.bytes <= maxBytes {
		return 0
	}
	return time.Until(s.since.Add(bytesInterval))
}

// throttle waits until more may be read.
func (s *stderr) throttle() {
	wait := s.wait()
	if wait <= 0 {
		return
	}
	if !s.slowed && !s.quiet && s.log != nil {
		s.slowed = true
		s.log(nil, fmt.Sprintf("the process has to wait: it writes more than %d KiB in %s to its standard error",
			maxBytes>>10, bytesInterval))
	}
	<-time.After(wait)
}

// split keeps at most one line of limited length.
func (s *stderr) split(data []byte) {
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
