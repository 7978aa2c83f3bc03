package recording

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A file is a series of gzip streams, as `zcat` reads it, with JSON in lines. Each stream is a block that can be read alone,
// so a file that was cut is whole up to its last block. The comment of each has the version.
const (
	magic   = "setpoint recording "
	version = "v2"

	// blockSize is the size of the text of a block; only longer lines make it longer.
	blockSize = 256 << 10
	// maxBlock limits what a reader allocates. A Writer leaves out longer lines.
	maxBlock = 64 << 20
	maxLine  = maxBlock - 2*blockSize
)

// ErrNotRecording is returned for a file of another kind.
var ErrNotRecording = errors.New("is no recording of setpoint")

// ErrEmpty is returned for a file without content, and for a stream that ended before it began.
var ErrEmpty = errors.New("the file is empty")

// unreadableError is about a recording that is damaged or of another version.
type unreadableError struct{ error }

func (e unreadableError) Unwrap() error { return e.error }

// errCut is returned for a block that is not complete.
var errCut = errors.New("the file ends in the middle of a block")

type blockWriter struct {
	out     io.Writer
	encoder *gzip.Writer
	block   bytes.Buffer
}

func (w *blockWriter) write(text []byte) (int, error) {
	w.block.Reset()
	if w.encoder == nil {
		w.encoder, _ = gzip.NewWriterLevel(&w.block, gzip.BestSpeed) // It fails only for an unknown level.
	}
	w.encoder.Reset(&w.block)
	w.encoder.Comment = magic + version
	_, err := w.encoder.Write(text)
	if err := errors.Join(err, w.encoder.Close()); err != nil {
		return 0, err
	}
	return w.out.Write(w.block.Bytes())
}

type blockReader struct {
	in   *bufio.Reader
	read *readCounter
	gzip gzip.Reader
	// offset is the end of the last block that was whole.
	offset int64
}

type readCounter struct {
	io.Reader

	bytes int64
}

func (c *readCounter) Read(into []byte) (int, error) {
	n, err := c.Reader.Read(into)
	c.bytes += int64(n)
	return n, err
}

func newBlockReader(in io.Reader) *blockReader {
	counter := &readCounter{Reader: in}
	return &blockReader{in: bufio.NewReader(counter), read: counter}
}

// text returns the text of the next block; io.EOF at the end, errCut for a part of a block.
func (r *blockReader) text() ([]byte, error) {
	if _, err := r.in.Peek(1); err != nil {
		if r.offset == 0 && errors.Is(err, io.EOF) {
			err = ErrEmpty
		}
		return nil, err
	}
	before, _ := r.in.Peek(len(magic) + len(version)) // The versions before gzip have it as text.
	if err := r.gzip.Reset(r.in); err != nil && (r.offset > 0 || !errors.Is(err, gzip.ErrHeader)) {
		return nil, r.damaged(err)
	}
	switch found, is := strings.CutPrefix(cmp.Or(r.gzip.Comment, string(before)), magic); {
	case !is:
		return nil, ErrNotRecording
	case found != version:
		return nil, unreadableError{fmt.Errorf("has the version %q; this setpoint reads %s: use the setpoint that recorded it, or "+
			"record again",
			found, version)}
	}
	r.gzip.Multistream(false)
	text, err := io.ReadAll(io.LimitReader(&r.gzip, maxBlock+1))
	if err == nil && len(text) > maxBlock {
		err = fmt.Errorf("more than %d bytes", maxBlock)
	}
	if err != nil {
		return nil, r.damaged(err)
	}
	r.offset = r.read.bytes - int64(r.in.Buffered())
	return text, nil
}

func (r *blockReader) damaged(problem error) error {
	if errors.Is(problem, io.ErrUnexpectedEOF) || errors.Is(problem, io.EOF) {
		return errCut
	}
	return unreadableError{fmt.Errorf("the file is damaged after byte %d: %w", r.offset, problem)}
}
