package child

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/setpoint-dev/setpoint/internal/process"
)

// Config configures a Pool. Controller, Command and Limiter are required.
type Config struct {
	// Controller is the name of the controller in figures.
	Controller string
	// Owner is who shares a part of all children, such as a ServiceAccount, as errors name it; default the controller.
	Owner string
	// Command starts a child. The pool sets its streams.
	Command process.Command
	// Check is called before each start, which its error prevents; nil for no check.
	Check func() error
	// Begin has the first exchange with a new child, within BeginTimeout; nil for none.
	Begin        func(*Conn) error
	BeginTimeout time.Duration
	// Log receives the lines of the standard error, unless QuietStderr is set, and those of Conn.Log,
	// with the object of the call; nil discards them. It must be fast.
	Log         func(object []byte, line string)
	QuietStderr bool
	// Limiter is shared by all pools.
	Limiter *Limiter
	// StartAfter is how long a call waits for a child that is in use before it starts another; default 250 ms. A child
	// makes many calls in that time, if they are short, and each child takes memory.
	StartAfter time.Duration
}

// worker is one child process. One goroutine at a time uses it.
type worker struct {
	conn   *Conn
	stderr *stderr
	run    *process.Running

	started time.Time
	// generation is that of the pool at the start.
	generation int
	// calls counts calls, for programs that never respond.
	calls     int
	idleSince time.Time
	idleTimer *time.Timer
	// killed is why it was killed.
	killed atomic.Pointer[error]
}

// endGrace is how long a child may take to exit when its input ends.
const endGrace = time.Second

// startWorker starts a process with pipes.
func startWorker(config *Config, budget *lineBudget) (*worker, error) {
	if config.Check != nil {
		if err := config.Check(); err != nil {
			return nil, &StartError{err}
		}
	}
	stdin, in, err := os.Pipe()
	if err != nil {
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	defer stdin.Close()
	out, stdout, err := os.Pipe()
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("open a pipe: %w", err)
	}
	defer stdout.Close()
	lines := &stderr{log: config.Log, budget: budget, quiet: config.QuietStderr, ready: make(chan struct{})}
	conn := &Conn{in: in, out: out, reader: bufio.NewReaderSize(out, readBuffer), log: lines.write}
	one := &worker{conn: conn, stderr: lines, started: time.Now()}
	command := config.Command
	command.Stdin, command.Stdout, command.Stderr = stdin, stdout, one.stderr
	if one.run, err = command.Start(); err != nil {
		conn.Close()
		return nil, &StartError{err}
	}
	return one, nil
}

// do makes a call. The limit of time, and the end of ctx, kill the process.
func (c *worker) do(ctx context.Context, limits Call, exchange func(*Conn) error) error {
	c.calls++
	c.stderr.begin(&limits)
	c.conn.budget = limits.MaxBytes
	timer := time.AfterFunc(limits.Timeout, func() { c.kill(&TimeoutError{limits.Timeout}) })
	stop := context.AfterFunc(ctx, func() { c.kill(context.Cause(ctx)) })
	err := exchange(c.conn)
	c.stderr.catchUp()
	timer.Stop()
	stop()
	switch {
	case err == nil && c.conn.reader.Buffered() > 0:
		return errMoreLines // The next call would read them.
	case err == nil:
		return nil
	case c.isKilled():
		return *c.killed.Load()
	case errors.Is(err, errEnd), errors.Is(err, syscall.EPIPE), errors.Is(err, os.ErrClosed): // The process closed its streams.
		return c.exitError()
	}
	return err
}

// exitError is the error of a process that exited in a call.
func (c *worker) exitError() error {
	timer := time.AfterFunc(endGrace, c.run.Kill) // It may have closed its output only.
	defer timer.Stop()
	<-c.run.Exited()
	head, tail := c.stderr.ends()
	return &ExitError{Err: c.run.Err(), First: head, Last: tail}
}

// check reports why an idle child cannot be used.
func (c *worker) check() error {
	select {
	case <-c.run.Exited():
		return errEnd
	default:
		return c.conn.checkSilent()
	}
}

// kill kills the process. Nothing blocks on its pipes any more, even if a process that left its
// group has them open.
func (c *worker) kill(cause error) {
	c.killed.CompareAndSwap(nil, &cause)
	c.run.Kill()
	past := time.Unix(1, 0)
	_ = c.conn.in.SetWriteDeadline(past)
	_ = c.conn.out.SetReadDeadline(past)
}

func (c *worker) isKilled() bool { return c.killed.Load() != nil }

// end lets the process exit by itself, which it does when its input ends.
func (c *worker) end() {
	if c.idleTimer != nil {
		c.idleTimer.Stop()
	}
	c.conn.in.Close()
	time.AfterFunc(endGrace, c.run.Kill)
}

// Conn exchanges lines with a child.
type Conn struct {
	in, out *os.File
	reader  *bufio.Reader
	log     func(line string)
	// budget is how many bytes may be read.
	budget int64
}

// Close closes the pipes.
func (c *Conn) Close() {
	c.in.Close()
	c.out.Close()
}

// readBuffer holds a common response.
const readBuffer = 16 << 10

// Log logs a line about the object of the call.
func (c *Conn) Log(line string) { c.log(line) }

var (
	// errEnd means that the child closed its output.
	errEnd = errors.New("the output ended")
	// errNoRequest means that an idle child wrote.
	errNoRequest = errors.New("wrote a line without a request")
	// errMoreLines means that a child wrote after its response.
	errMoreLines = errors.New("wrote more than one line for one request")
)

// RoundTrip sends lines and reads one. It reads while it writes what does not fit into the pipe, for children that
// write before they have read everything.
func (c *Conn) RoundTrip(lines ...[]byte) ([]byte, error) {
	text := joined(lines)
	written, err := c.writeNow(text)
	if err != nil {
		return nil, err
	}
	sent := make(chan error, 1)
	if rest := text[written:]; len(rest) == 0 {
		sent <- nil // Most calls need no second goroutine, which costs more than the write.
	} else {
		go func() {
			_, err := c.in.Write(rest)
			sent <- err
		}()
	}
	line, err := c.Line()
	if err != nil {
		// The end of the output says more than a broken pipe. The pool kills the child, which ends
		// the sender too.
		return nil, err
	}
	return line, <-sent
}

// writeNow writes as much as the pipe takes without waiting. A child that reads nothing any more is no error: its output
// says more.
func (c *Conn) writeNow(text []byte) (n int, err error) {
	raw, err := c.in.SyscallConn()
	if err != nil {
		return 0, err
	}
	err = raw.Write(func(fd uintptr) bool {
		n, _ = syscall.Write(int(fd), text)
		return true
	})
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
		err = os.ErrClosed // A raw connection has an error of its own for it.
	}
	return max(0, n), err
}

// joined has a line break after each line.
func joined(lines [][]byte) []byte {
	size := 0
	for _, line := range lines {
		size += len(line) + 1
	}
	text := make([]byte, 0, size)
	for _, line := range lines {
		text = append(append(text, oneLine(line)...), '\n')
	}
	return text
}

// oneLine returns JSON without line breaks, which it has only between values.
func oneLine(line []byte) []byte {
	if bytes.IndexByte(line, '\n') < 0 {
		return line
	}
	return bytes.ReplaceAll(line, []byte("\n"), []byte(" "))
}

// Line reads a line.
func (c *Conn) Line() ([]byte, error) {
	var long []byte
	for {
		part, err := c.reader.ReadSlice('\n')
		if c.budget -= int64(len(part)); c.budget < 0 {
			return nil, &SizeError{}
		}
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
			long = append(long, part...)
			continue
		case errors.Is(err, io.EOF):
			return nil, errEnd
		case err != nil:
			return nil, err
		case long == nil:
			return bytes.Clone(part[:len(part)-1]), nil
		}
		return append(long, part[:len(part)-1]...), nil
	}
}

// checkSilent reports whether an idle child wrote, or closed its output. It does not wait.
func (c *Conn) checkSilent() error {
	raw, err := c.out.SyscallConn()
	if err != nil {
		return err
	}
	var n int
	var readErr error
	err = raw.Read(func(fd uintptr) bool {
		n, readErr = syscall.Read(int(fd), make([]byte, 1))
		return true
	})
	switch {
	case err != nil:
		return err
	case errors.Is(readErr, syscall.EAGAIN):
		return nil
	case readErr != nil:
		return readErr
	case n == 0:
		return errEnd
	}
	return errNoRequest
}
