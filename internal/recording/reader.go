package recording

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
)

// Reader reads a recording. It is not safe for concurrent use.
type Reader struct {
	// Segment is that of the latest call.
	Segment Segment
	// Totals are the sums so far.
	Totals Totals

	blocks *blockReader
	text   []byte
	values map[string]json.RawMessage
	// bytes is the size of the values, and maxBytes the most of a segment.
	bytes, maxBytes int
	cut             bool
}

// NewReader returns a Reader. The first Next checks the version.
func NewReader(in io.Reader) *Reader {
	return &Reader{blocks: newBlockReader(in), maxBytes: maxSegmentBytes + maxBlock}
}

// IsCut reports whether the file ended in the middle of a block, as after a crash. What was read is whole.
func (r *Reader) IsCut() bool { return r.cut }

// Next returns the next call; io.EOF at the end, also at that of a file that was cut.
func (r *Reader) Next() (*Call, error) {
	for {
		line, err := r.line()
		if err != nil {
			return nil, err
		}
		call, err := r.read(line)
		if call != nil || err != nil {
			return call, err
		}
	}
}

func (r *Reader) line() ([]byte, error) {
	for len(r.text) == 0 {
		var err error
		r.text, err = r.blocks.text()
		if errors.Is(err, errCut) {
			r.cut, err = true, io.EOF
		}
		if err != nil {
			return nil, err
		}
	}
	line, rest, _ := bytes.Cut(r.text, []byte("\n"))
	r.text = rest
	return line, nil
}

// read reads a line. It returns nil for one that is no call.
func (r *Reader) read(line []byte) (*Call, error) {
	if bytes.HasPrefix(line, []byte(valuePrefix)) {
		return nil, r.readValue(line)
	}
	var one struct {
		Segment *Segment `json:"segment"`
		Totals  *Totals  `json:"totals"`
		Call    *Call    `json:"call"`
	}
	if err := json.Unmarshal(line, &one); err != nil {
		return nil, r.blocks.damaged(err)
	}
	switch {
	case one.Segment != nil:
		r.values, r.bytes, r.Segment = map[string]json.RawMessage{}, 0, *one.Segment
	case one.Totals != nil:
		r.Totals = r.Totals.Plus(*one.Totals)
	case one.Call != nil:
		one.Call.values = r.values
		if one.Call.Process == "" {
			one.Call.Process = r.Segment.Process
		}
	}
	return one.Call, nil
}

func (r *Reader) readValue(line []byte) error {
	head := len(valuePrefix) + digestLength + len(valueMiddle)
	if len(line) < head+len(valueSuffix) || r.values == nil {
		return r.blocks.damaged(errors.New("a value without a digest or a segment"))
	}
	digest, value := string(line[len(valuePrefix):len(valuePrefix)+digestLength]), line[head:len(line)-len(valueSuffix)]
	if digestOf(value) != digest {
		return r.blocks.damaged(fmt.Errorf("the value %q has another content", digest))
	}
	if r.bytes += len(value); r.bytes > r.maxBytes {
		return r.blocks.damaged(fmt.Errorf("a segment with values of more than %d bytes", r.maxBytes))
	}
	r.values[digest] = value
	return nil
}

// blockReader reads the texts of blocks.
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
