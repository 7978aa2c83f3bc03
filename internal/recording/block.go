package recording

import (
	"bytes"
	"compress/flate"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
)

// A file is a line with the version, then blocks: the length of the compressed text, its checksum, and the text,
// which is JSON in lines. Each block can be read alone, so a file that was cut is whole up to its last block.
const (
	magic   = "setpoint recording "
	version = "v1"
	preface = magic + version + "\n"

	blockHeader = 8
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

var checksums = crc32.MakeTable(crc32.Castagnoli)

// blockWriter compresses and writes blocks.
type blockWriter struct {
	out     io.Writer
	encoder *flate.Writer
	block   bytes.Buffer
}

// write writes one block with one Write.
func (w *blockWriter) write(text []byte) (int, error) {
	w.block.Reset()
	w.block.Write(make([]byte, blockHeader))
	if w.encoder == nil {
		w.encoder, _ = flate.NewWriter(&w.block, flate.BestSpeed) // It fails only for an unknown level.
	} else {
		w.encoder.Reset(&w.block)
	}
	if _, err := w.encoder.Write(text); err != nil {
		return 0, err
	}
	if err := w.encoder.Close(); err != nil {
		return 0, err
	}
	block := w.block.Bytes()
	binary.LittleEndian.PutUint32(block, uint32(len(block)-blockHeader))
	binary.LittleEndian.PutUint32(block[4:], crc32.Checksum(block[blockHeader:], checksums))
	return w.out.Write(block)
}

// blockReader reads blocks.
type blockReader struct {
	in     io.Reader
	header [blockHeader]byte
	block  []byte
	// offset is the end of the last block that was whole.
	offset int64
}

// damaged returns the error for a block that cannot be read.
func (r *blockReader) damaged(problem error) error {
	return unreadableError{fmt.Errorf("the file is damaged after byte %d: %w", r.offset, problem)}
}

// begin reads the line with the version.
func (r *blockReader) begin() error {
	line := make([]byte, len(preface))
	n, err := io.ReadFull(r.in, line)
	line = line[:n]
	switch {
	case bytes.Equal(line, []byte(preface)):
		r.offset = int64(n)
		return nil
	case err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF):
		return err
	case n == 0:
		return ErrEmpty
	case bytes.HasPrefix([]byte(preface), line):
		return errCut
	case bytes.HasPrefix(line, []byte(magic)):
		other, _, _ := bytes.Cut(line[len(magic):], []byte("\n"))
		return unreadableError{fmt.Errorf("has the version %q; this setpoint reads %s: use the setpoint that recorded it, or record again",
			other, version)}
	}
	return ErrNotRecording
}

// compressed returns the next block; io.EOF at the end, errCut for a part of a block.
func (r *blockReader) compressed() ([]byte, error) {
	if _, err := io.ReadFull(r.in, r.header[:]); err != nil {
		return nil, cutOr(err, io.EOF)
	}
	size := binary.LittleEndian.Uint32(r.header[:])
	if size > maxBlock {
		return nil, r.damaged(fmt.Errorf("a block of %d bytes", size))
	}
	if cap(r.block) < int(size) {
		r.block = make([]byte, size)
	}
	r.block = r.block[:size]
	if _, err := io.ReadFull(r.in, r.block); err != nil {
		return nil, cutOr(err, errCut)
	}
	if crc32.Checksum(r.block, checksums) != binary.LittleEndian.Uint32(r.header[4:]) {
		return nil, r.damaged(errors.New("a block with another checksum"))
	}
	r.offset += blockHeader + int64(size)
	return r.block, nil
}

// cutOr returns atEnd for the end of the file, errCut for one within what is read.
func cutOr(err, atEnd error) error {
	switch {
	case errors.Is(err, io.EOF):
		return atEnd
	case errors.Is(err, io.ErrUnexpectedEOF):
		return errCut
	}
	return err
}

// text returns the text of the next block.
func (r *blockReader) text() ([]byte, error) {
	block, err := r.compressed()
	if err != nil {
		return nil, err
	}
	text, err := io.ReadAll(io.LimitReader(flate.NewReader(bytes.NewReader(block)), maxBlock+1))
	if err == nil && len(text) > maxBlock {
		err = fmt.Errorf("more than %d bytes", maxBlock)
	}
	if err != nil {
		return nil, r.damaged(err)
	}
	return text, nil
}
