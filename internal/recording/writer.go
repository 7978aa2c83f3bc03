package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"hash/maphash"
	"io"
)

// Writer writes calls. Each value is written once per segment. It is not safe for concurrent use.
type Writer struct {
	segment Segment
	// maxLine is the most text of a call with its values.
	maxLine int
	blocks  blockWriter
	text    bytes.Buffer
	// digests are those of the values of the segment, by a faster hash.
	digests map[[2]uint64]string
	bytes   int
	begun   bool
	// calls were written, and pending are added.
	calls, pending int
	err            error
}

// NewWriter returns a Writer that appends to a file.
func NewWriter(out io.Writer, segment Segment) *Writer {
	return &Writer{segment: segment, maxLine: maxLine, blocks: blockWriter{out: out}}
}

// Calls is the number of calls written.
func (w *Writer) Calls() int { return w.calls }

// Add adds a call with a request, whose objects are written once, and a response; nil for none. A call that is too
// large for a block, or whose request is no JSON, is counted only.
func (w *Writer) Add(call *Call, request, response json.RawMessage) error {
	w.beginSegment()
	size, start := 0, w.text.Len()
	digestOf := func(raw json.RawMessage) string {
		size += len(raw)
		if size > w.maxLine {
			return ""
		}
		return w.addValue(raw)
	}
	template, err := editObjects(request, func(raw json.RawMessage) json.RawMessage {
		return json.RawMessage(`"` + digestOf(oneLine(raw)) + `"`)
	})
	if err != nil {
		return w.drop(start, Totals{Dropped: 1})
	}
	call.Template = template
	if response != nil {
		call.ResponseDigest = digestOf(oneLine(response))
	}
	line, err := json.Marshal(map[string]*Call{"call": call})
	if err != nil {
		return fmt.Errorf("%s: %w", call, err)
	}
	if size > w.maxLine || w.text.Len()-start+len(line) > w.maxLine {
		return w.drop(start, Totals{Oversized: 1})
	}
	w.addLine(line)
	w.pending++
	if w.text.Len() >= blockSize {
		return w.Flush()
	}
	return w.err
}

// drop counts a call that is not written.
func (w *Writer) drop(start int, count Totals) error {
	w.text.Truncate(start) // Its values are forgotten with the segment.
	w.begun = false
	w.AddTotals(count)
	return w.err
}

// Copy adds a call of another recording.
func (w *Writer) Copy(call *Call) error {
	response, err := call.Response()
	if err != nil {
		return err
	}
	request, err := call.Request()
	if err != nil {
		return err
	}
	copied := *call
	return w.Add(&copied, request, response)
}

// beginSegment begins a segment if there is none, or the limits of this one are reached.
func (w *Writer) beginSegment() {
	if w.begun && len(w.digests) < maxSegmentValues && w.bytes < maxSegmentBytes {
		return
	}
	w.begun, w.digests, w.bytes = true, map[[2]uint64]string{}, 0
	w.addField("segment", w.segment)
}

// AddTotals says how much more is missing.
func (w *Writer) AddTotals(t Totals) { w.addField("totals", t) }

// addField adds a line with one field, whose value always has a JSON form.
func (w *Writer) addField(name string, value any) {
	if line, err := json.Marshal(map[string]any{name: value}); err == nil {
		w.addLine(line)
	}
}

func (w *Writer) addLine(line []byte) {
	w.text.Write(line)
	w.text.WriteByte('\n')
}

// seeds are of two hashes, so that different values have different pairs.
var seeds = [2]maphash.Seed{maphash.MakeSeed(), maphash.MakeSeed()}

// addValue returns the digest of a value, and writes the value if it is new.
func (w *Writer) addValue(raw json.RawMessage) string {
	key := [2]uint64{maphash.Bytes(seeds[0], raw), maphash.Bytes(seeds[1], raw)}
	if digest, known := w.digests[key]; known {
		return digest
	}
	digest := digestOf(raw)
	w.digests[key] = digest
	w.bytes += len(raw)
	w.text.WriteString(valuePrefix)
	w.text.WriteString(digest)
	w.text.WriteString(valueMiddle)
	w.text.Write(raw)
	w.text.WriteString(valueSuffix + "\n")
	return digest
}

// oneLine returns JSON in one line, as it comes from the API server and from hooks.
func oneLine(raw json.RawMessage) json.RawMessage {
	if bytes.IndexByte(raw, '\n') < 0 {
		return raw
	}
	var compact bytes.Buffer
	if json.Compact(&compact, raw) != nil {
		return raw
	}
	return compact.Bytes()
}

// Flush writes what was added.
func (w *Writer) Flush() error {
	if w.err != nil || w.text.Len() == 0 {
		return w.err
	}
	if _, w.err = w.blocks.write(w.text.Bytes()); w.err == nil {
		w.calls += w.pending
	}
	w.pending = 0
	w.text.Reset()
	if w.text.Cap() > 8*blockSize {
		w.text = bytes.Buffer{} // One large call must not keep its memory.
	}
	return w.err
}

// blockWriter writes texts as blocks.
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
