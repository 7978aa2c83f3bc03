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
	// frameBuffer holds most events whole.
	frameBuffer = 16 << 10
	// maxKeptBuffer is the most that is kept after an event that was larger.
	maxKeptBuffer = 64 << 10
)

// frameReader splits a watch's body into events. API servers write each as one line
// that begins with its type, which is split here without looking at the object.
// From the first line that is anything else on, a JSON decoder does the work.
type frameReader struct {
	in       *bufio.Reader
	longLine []byte
	decoder  *json.Decoder
}

func newFrameReader(body io.Reader) *frameReader {
	return &frameReader{in: bufio.NewReaderSize(body, frameBuffer)}
}

// next returns the type of the next event and the JSON of its object, which is
// valid until the next call. At the end it is io.EOF; within an event,
// io.ErrUnexpectedEOF.
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

// line reads a line, in place as long as it fits the buffer.
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

// split takes {"type":"ADDED","object":{...}} apart.
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

// eventType makes no string of a name that is known.
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

// decode reads an event in whatever form it has.
func (f *frameReader) decode() (machinery.EventType, []byte, error) {
	var event struct {
		Type   machinery.EventType `json:"type"`
		Object json.RawMessage     `json:"object"`
	}
	err := f.decoder.Decode(&event)
	return event.Type, event.Object, err
}
