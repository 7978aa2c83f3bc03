package cache

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"io"

	machinery "k8s.io/apimachinery/pkg/watch"
)

const (
	// frameBuffer is large enough for most events.
	frameBuffer = 16 << 10
	// maxKeptBuffer limits the buffer that is kept after a larger event.
	maxKeptBuffer = 64 << 10
)

// frameReader splits the body of a watch into events. API servers write each event as one
// line that begins with its type, which is read without parsing the object. Anything else
// is left to a JSON decoder from then on.
type frameReader struct {
	in       *bufio.Reader
	longLine []byte
	decoder  *json.Decoder
}

func newFrameReader(body io.Reader) *frameReader {
	return &frameReader{in: bufio.NewReaderSize(body, frameBuffer)}
}

// next returns the type and the JSON of the next event, valid until the next call. It returns
// io.EOF at the end, and io.ErrUnexpectedEOF within an event.
func (f *frameReader) next() (machinery.EventType, []byte, error) {
	if f.decoder != nil {
		return f.decode()
	}
	line, err := f.line()
	if err != nil && len(line) == 0 {
		return "", nil, err
	}
	if kind, object, ok := split(line); ok && err == nil {
		return kind, object, nil
	}
	f.decoder = json.NewDecoder(io.MultiReader(bytes.NewReader(bytes.Clone(line)), f.in))
	return f.decode()
}

// line reads a line, without copying it if it fits into the buffer.
func (f *frameReader) line() ([]byte, error) {
	line, err := f.in.ReadSlice('\n')
	if !errors.Is(err, bufio.ErrBufferFull) {
		return line, err
	}
	if cap(f.longLine) > maxKeptBuffer {
		f.longLine = nil
	}
	f.longLine = f.longLine[:0]
	for errors.Is(err, bufio.ErrBufferFull) {
		f.longLine = append(f.longLine, line...)
		line, err = f.in.ReadSlice('\n')
	}
	f.longLine = append(f.longLine, line...)
	return f.longLine, err
}

// split splits {"type":"ADDED","object":{...}}.
func split(line []byte) (kind machinery.EventType, object []byte, ok bool) {
	rest, ok := bytes.CutPrefix(line, []byte(`{"type":"`))
	if !ok {
		return "", nil, false
	}
	name, rest, _ := bytes.Cut(rest, []byte(`"`))
	rest, ok = bytes.CutPrefix(rest, []byte(`,"object":`))
	if !ok {
		return "", nil, false
	}
	object, ok = bytes.CutSuffix(bytes.TrimRight(rest, " \r\n"), []byte("}"))
	return eventType(name), object, ok && bytes.HasPrefix(object, []byte("{")) && bytes.HasSuffix(object, []byte("}"))
}

// eventType avoids an allocation for known types.
func eventType(name []byte) machinery.EventType {
	switch string(name) {
	case "ADDED":
		return machinery.Added
	case "MODIFIED":
		return machinery.Modified
	case "DELETED":
		return machinery.Deleted
	case "BOOKMARK":
		return machinery.Bookmark
	case "ERROR":
		return machinery.Error
	}
	return machinery.EventType(name)
}

// decode reads an event in any form.
func (f *frameReader) decode() (machinery.EventType, []byte, error) {
	var event struct {
		Type   machinery.EventType `json:"type"`
		Object json.RawMessage     `json:"object"`
	}
	err := f.decoder.Decode(&event)
	return event.Type, event.Object, err
}
