package child

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"os"
	"syscall"
)

// Conn exchanges lines with a child.
type Conn struct {
	in, out *os.File
	reader  *bufio.Reader
	log     func(line string)
	// budget is how many bytes may be read.
	budget int64
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
