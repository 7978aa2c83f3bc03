package script

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// stream is a pipe that Go's poller watches: waiting for it takes no thread, so that the end of stdin is seen while code
// runs in a loop without end.
type stream struct {
	file *os.File
	conn syscall.RawConn
}

// openStream makes the file one that does not block.
func openStream(f *os.File) (*stream, error) {
	fd := int(f.Fd())
	if err := syscall.SetNonblock(fd, true); err != nil {
		return nil, fmt.Errorf("open %s: %w", f.Name(), err)
	}
	file := os.NewFile(uintptr(fd), f.Name())
	conn, err := file.SyscallConn()
	return &stream{file, conn}, err
}

// Read implements io.Reader.
func (s *stream) Read(to []byte) (n int, err error) {
	waitErr := s.conn.Read(func(fd uintptr) bool {
		n, err = read(fd, to)
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case waitErr != nil:
		return 0, waitErr
	case err != nil:
		return 0, fmt.Errorf("read %s: %w", s.file.Name(), err)
	case n == 0:
		return 0, io.EOF
	}
	return n, nil
}

// Write implements io.Writer.
func (s *stream) Write(from []byte) (written int, err error) {
	waitErr := s.conn.Write(func(fd uintptr) bool {
		for err = nil; written < len(from) && err == nil; {
			var n int
			n, err = write(fd, from[written:])
			written += n
		}
		return !errors.Is(err, syscall.EAGAIN)
	})
	switch {
	case waitErr != nil:
		return written, waitErr
	case err != nil:
		return written, fmt.Errorf("write %s: %w", s.file.Name(), err)
	}
	return written, nil
}
