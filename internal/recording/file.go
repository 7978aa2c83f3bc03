package recording

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
	"time"
)

// MinFileSize is the least bound of a file, DefaultFileSize that of commands.
const (
	MinFileSize     = 1 << 20
	DefaultFileSize = 256 << 20
)

// ErrFull is returned when a file that is not rotated has its maximum size.
var ErrFull = errors.New("the recording has its maximum size")

// FileOptions configure a File.
type FileOptions struct {
	Path    string
	Segment Segment
	// MaxBytes bounds the file.
	MaxBytes int64
	// Rotate appends to an existing file, and renames it to Path.1 when it has half of MaxBytes, or when it cannot
	// be read. Without it, the file must not exist, and the recording ends at MaxBytes.
	Rotate bool
}

// File is a recording in a file, which only one process writes. It is a Sink, and not safe for concurrent use.
type File struct {
	options FileOptions
	file    *os.File
	// size is that of the file up to its last whole block.
	size   int64
	writer *Writer
}

// OpenFile creates a file, or opens one to append. It removes an incomplete block, which a crash has left.
func OpenFile(o FileOptions) (*File, error) {
	f := &File{options: o}
	if err := f.open(); err != nil {
		return nil, err
	}
	return f, nil
}

func (f *File) open() (err error) {
	flags := os.O_RDWR | os.O_CREATE
	if !f.options.Rotate {
		flags |= os.O_EXCL
	}
	if f.file, err = os.OpenFile(f.options.Path, flags, 0o600); err != nil {
		if errors.Is(err, os.ErrExist) {
			err = fmt.Errorf("%s exists; remove it, or give another name", f.options.Path)
		}
		return err
	}
	if err = f.resume(); err != nil {
		return errors.Join(fmt.Errorf("%s: %w", f.options.Path, err), f.file.Close())
	}
	return nil
}

// resume finds the end of the last whole block.
func (f *File) resume() error {
	switch info, err := f.file.Stat(); {
	case err != nil:
		return err
	case !info.Mode().IsRegular():
		return errors.New("is no regular file")
	}
	if err := lock(f.file); err != nil {
		return err
	}
	blocks := newBlockReader(f.file)
	var err error
	for err == nil {
		_, err = blocks.text()
	}
	isEnd := errors.Is(err, io.EOF) || errors.Is(err, errCut) || errors.Is(err, ErrEmpty)
	switch _, isUnreadable := errors.AsType[unreadableError](err); {
	case isUnreadable && f.options.Rotate:
		return f.replace() // A damaged file, or that of another version, must neither be lost nor stop a process.
	case !isEnd:
		return err
	}
	f.size = blocks.offset
	if err := f.truncate(); err != nil {
		return err
	}
	f.writer = NewWriter(f, f.options.Segment)
	return nil
}

// lock makes this process the only one that writes a file, until it ends.
func lock(file *os.File) error {
	err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		return errors.New("another process records to this file")
	}
	return err
}

// truncate removes what is behind the last whole block.
func (f *File) truncate() error {
	if err := f.file.Truncate(f.size); err != nil {
		return err
	}
	_, err := f.file.Seek(f.size, io.SeekStart)
	return err
}

// Write implements io.Writer for one block. What could be written of one that fails is removed.
func (f *File) Write(block []byte) (int, error) {
	n, err := f.file.Write(block)
	if err != nil {
		return n, errors.Join(err, f.truncate())
	}
	f.size += int64(n)
	return n, nil
}

// FlushInterval implements Sink.
func (*File) FlushInterval() time.Duration { return time.Second }

// Writer implements Sink.
func (f *File) Writer() (*Writer, error) {
	switch {
	case !f.options.Rotate && f.size >= f.options.MaxBytes:
		return nil, ErrFull
	case f.options.Rotate && f.size >= f.options.MaxBytes/2:
		err := f.writer.Flush()
		if err == nil {
			err = f.replace()
		}
		return f.writer, err
	}
	return f.writer, nil
}

// replace renames the file and begins another.
func (f *File) replace() error {
	if err := errors.Join(os.Rename(f.options.Path, f.options.Path+".1"), f.file.Close()); err != nil {
		return err
	}
	return f.open()
}

// Calls is the number of calls in the file that this process added, since the file was opened or rotated. What waits
// to be flushed is not in it.
func (f *File) Calls() int { return f.writer.Calls() }

// Flush writes what was added.
func (f *File) Flush() error { return f.writer.Flush() }

// Close closes the file. The recorder has written all. After an error of a write it returns the same error.
func (f *File) Close() error {
	err := f.writer.Flush()
	if closed := f.file.Close(); err == nil {
		err = closed
	}
	return err
}
