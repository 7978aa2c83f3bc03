package recording

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/record"
)

var segment = Segment{Process: "setpoint", Version: "v1.0.0"}

// syncCall is a call about a parent with one child.
func syncCall(parent, child, response string) *record.Call {
	return &record.Call{
		Name: "sync", Received: record.Response{Sync: &hook.Response{Children: []json.RawMessage{json.RawMessage(response)}}},
		Sent: record.Request{Sync: &hook.Request{
			Controller: json.RawMessage(`{"kind":"CompositeController"}`), Parent: json.RawMessage(parent), ParentNamespace: "shop",
			Children: []hook.Group{{APIVersion: "v1", Kind: "Pod", Objects: []hook.Entry{{Namespace: "shop", Name: "a", Object: json.RawMessage(child)}}}},
		}},
	}
}

func addCall(t *testing.T, w *Writer, c *record.Call) {
	t.Helper()
	must.Succeed(t, w.Add(&Call{Controller: "c", Hook: c.Name}, c.Sent.JSON(), c.Received.JSON(0)))
}

// writeCalls writes some calls with a block each.
func writeCalls(t *testing.T, out io.Writer, count int) {
	t.Helper()
	w := NewWriter(out, segment)
	for i := range count {
		addCall(t, w, syncCall(`{"n":`+strconv.Itoa(i)+`}`, `{"kind":"Pod"}`, `{"kind":"Pod"}`))
		must.Succeed(t, w.Flush())
	}
}

// readAll returns the requests and responses in a recording.
func readAll(t *testing.T, in io.Reader) (texts []string, r *Reader, err error) {
	t.Helper()
	r = NewReader(in)
	for {
		call, err := r.Next()
		if err != nil {
			if errors.Is(err, io.EOF) {
				err = nil
			}
			return texts, r, err
		}
		request, err := call.Request()
		if err != nil {
			return texts, r, err
		}
		response, err := call.Response()
		if err != nil {
			return texts, r, err
		}
		texts = append(texts, string(request)+" → "+string(response))
	}
}

func TestRoundTrip(t *testing.T) {
	var file bytes.Buffer
	writeCalls(t, &file, 2)
	got, r, err := readAll(t, &file)
	const want = `{"children":{"Pod.v1":{"shop/a":{"kind":"Pod"}}},"controller":{"kind":"CompositeController"},"finalizing":false,"parent":{"n":1},"related":{}} → {"children":[{"kind":"Pod"}]}`
	if err != nil || len(got) != 2 || got[1] != want || r.Segment != segment || r.IsCut() {
		t.Errorf("got %q, %v, %+v", got, err, r.Segment)
	}
}

// A file that was cut at any byte is readable up to the last whole block.
func TestCutFile(t *testing.T) {
	var file bytes.Buffer
	writeCalls(t, &file, 3)
	whole := 0
	for size := range file.Len() {
		got, r, err := readAll(t, bytes.NewReader(file.Bytes()[:size]))
		switch {
		case size == 0 && (err == nil || !strings.Contains(err.Error(), "the file is empty")):
			t.Errorf("empty: %v", err)
		case size > 0 && err != nil:
			t.Fatalf("%d bytes: %v", size, err)
		case len(got) < whole:
			t.Fatalf("%d bytes: %d calls, %d before", size, len(got), whole)
		case len(got) == whole && size > 0 && !r.IsCut() && len(got) == 0:
			t.Fatalf("%d bytes: not reported as cut", size)
		}
		whole = len(got)
	}
	if whole != 2 {
		t.Errorf("%d calls in all but the last byte", whole)
	}
}

func TestDamagedFiles(t *testing.T) {
	var file bytes.Buffer
	writeCalls(t, &file, 2)
	flipped := bytes.Clone(file.Bytes())
	flipped[len(flipped)-1] ^= 1
	foreign := blocksOf(t, `{"segment":{}}`+"\n"+valuePrefix+strings.Repeat("x", digestLength)+valueMiddle+"{}}\n")
	missing := blocksOf(t, `{"segment":{}}`+"\n"+`{"call":{"hook":"sync","object":{"kind":"Pod","name":"a"},"request":{"parent":"y"}}}`+"\n")
	for name, c := range map[string]struct {
		file []byte
		want string
	}{
		"another file":    {[]byte("apiVersion: v1\nkind: ConfigMap\n"), "is no recording of setpoint"},
		"another version": {streamOf(t, magic+"v9", "what"), `has the version "v9"; this setpoint reads v2`},
		"a flipped bit":   {flipped, "the file is damaged after byte"},
		"a large block":   {streamOf(t, magic+version, strings.Repeat("x", maxBlock+1)), "more than 67108864 bytes"},
		"no JSON":         {blocksOf(t, "what\n"), "the file is damaged"},
		"a foreign value": {foreign, "has another content"},
		"a missing value": {missing, `the file lacks the value "y"`},
	} {
		if _, _, err := readAll(t, bytes.NewReader(c.file)); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %s", name, err, c.want)
		}
	}
}

// blocksOf returns a file with one block.
func blocksOf(t *testing.T, text string) []byte {
	t.Helper()
	return streamOf(t, magic+version, text)
}

// streamOf returns a gzip stream.
func streamOf(t *testing.T, comment, text string) []byte {
	t.Helper()
	var file bytes.Buffer
	w := gzip.NewWriter(&file)
	w.Comment = comment
	_, err := io.WriteString(w, text)
	must.Succeed(t, errors.Join(err, w.Close()))
	return file.Bytes()
}

// A value is written once, however many calls have it.
func TestValuesAreWrittenOnce(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file, segment)
	large := `{"data":"` + randomText(100_000) + `"}`
	for range 100 {
		addCall(t, w, syncCall(large, large, large))
	}
	if err := w.Flush(); err != nil || file.Len() > 300_000 {
		t.Errorf("%d bytes, %v", file.Len(), err)
	}
}

// randomText returns text that cannot be compressed much.
func randomText(size int) string {
	var text strings.Builder
	for i := uint32(1); text.Len() < size; i++ {
		text.WriteString(digestOf([]byte{byte(i), byte(i >> 8), byte(i >> 16)}))
	}
	return text.String()
}

func TestAppendAfterACrash(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	options := FileOptions{Path: path, Segment: segment, MaxBytes: MinFileSize, Rotate: true}
	for want := 1; want <= 3; want++ {
		f := must.Get(OpenFile(options)).In(t)
		addCall(t, f.writer, syncCall(`{}`, `{}`, `{}`))
		if _, err := OpenFile(options); err == nil || !strings.Contains(err.Error(), "another process records to this file") {
			t.Errorf("a second recorder: %v", err)
		}
		must.Succeed(t, f.Close())
		text := must.Get(os.ReadFile(path)).In(t)
		if got, _, err := readAll(t, bytes.NewReader(text)); err != nil || len(got) != want {
			t.Errorf("%d calls, %v, want %d", len(got), err, want)
		}
		must.Succeed(t, os.WriteFile(path, append(text, text[:20]...), 0o600))
	}
}

func TestOtherFilesAreNotLost(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	for _, c := range []struct{ text, keptAs string }{
		{"kind: ConfigMap", path}, {string(streamOf(t, magic+"v9", "later")), path + ".1"}, {string(blocksOf(t, "a\n")) + "\x01\x00\x00\x00\x00\x00\x00\x00\x00\x00", path + ".1"},
	} {
		must.Succeed(t, os.WriteFile(path, []byte(c.text), 0o600))
		if _, err := OpenFile(FileOptions{Path: path, MaxBytes: MinFileSize}); err == nil || !strings.Contains(err.Error(), "exists; remove it") {
			t.Errorf("%q: %v", c.text, err)
		}
		f, err := OpenFile(FileOptions{Path: path, Rotate: true, MaxBytes: MinFileSize})
		if (err == nil) != (c.keptAs != path) {
			t.Errorf("%q: %v", c.text, err)
		}
		if kept, err := os.ReadFile(c.keptAs); err != nil || string(kept) != c.text {
			t.Errorf("%q has become %q", c.text, kept)
		}
		if f != nil {
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func TestSizeIsBounded(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	f := must.Get(OpenFile(FileOptions{Path: path, Segment: segment, MaxBytes: MinFileSize, Rotate: true})).In(t)
	for i := range 400 {
		w := must.Get(f.Writer()).In(t)
		addCall(t, w, syncCall(`{"n":`+strconv.Itoa(i)+`,"a":"`+randomText(10_000 + i)[i:]+`"}`, `{}`, `{}`))
	}
	must.Succeed(t, f.Close())
	last := ""
	for _, name := range []string{path + ".1", path} {
		text, err := os.ReadFile(name)
		if err != nil || len(text) > MinFileSize*3/4 {
			t.Errorf("%s: %d bytes, %v", name, len(text), err)
		}
		got, _, err := readAll(t, bytes.NewReader(text))
		if err != nil || len(got) == 0 {
			t.Fatalf("%s: %d calls, %v", name, len(got), err)
		}
		last = got[len(got)-1]
	}
	if !strings.Contains(last, `"n":399`) {
		t.Errorf("the last call is %.60s", last)
	}
}

// full is a disk that is full after some bytes.
type full struct{ left int }

func (f *full) Write(text []byte) (int, error) {
	n := min(f.left, len(text))
	f.left -= n
	if n < len(text) {
		return n, errors.New("no space left on device")
	}
	return n, nil
}

// Calls are counted once they are written.
func TestCountOfCalls(t *testing.T) {
	for space, want := range map[int]int{1000: 2, 30: 0} {
		w := NewWriter(&full{space}, segment)
		for range 2 {
			addCall(t, w, syncCall(`{}`, `{}`, `{}`))
		}
		before := w.Calls()
		if err := w.Flush(); before != 0 || w.Calls() != want || (err == nil) != (want > 0) {
			t.Errorf("with %d bytes: %d calls, %d of them before they are written: %v", space, w.Calls(), before, err)
		}
	}
}

func TestFullDisk(t *testing.T) {
	w := NewWriter(&full{100}, segment)
	addCall(t, w, syncCall(`{}`, `{}`, `{}`))
	for range 2 {
		if err := w.Flush(); err == nil || !strings.Contains(err.Error(), "no space left") {
			t.Errorf("got %v", err)
		}
	}
}

func TestHugeCall(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file, segment)
	addCall(t, w, syncCall(`{"a":"`+strings.Repeat("x", maxLine)+`"}`, `{}`, `{}`))
	addCall(t, w, syncCall(`{}`, `{}`, `{}`))
	must.Succeed(t, w.Flush())
	if got, r, err := readAll(t, &file); len(got) != 1 || err != nil || r.Totals.Oversized != 1 {
		t.Errorf("%d calls, %v, %+v", len(got), err, r.Totals)
	}
}

// A request that is no JSON, such as that of a broken client of a webhook, ends no recording.
func TestInvalidRequest(t *testing.T) {
	var file bytes.Buffer
	w := NewWriter(&file, segment)
	for _, request := range []string{"{\"a\":\"\xff\"}", `{"a":`} {
		must.Succeed(t, w.Add(&Call{Hook: "sync"}, json.RawMessage(request), nil))
	}
	addCall(t, w, syncCall(`{}`, `{}`, `{}`))
	must.Succeed(t, w.Flush())
	if got, r, err := readAll(t, &file); len(got) != 1 || err != nil || r.Totals.Dropped != 2 {
		t.Errorf("%d calls, %v, %+v", len(got), err, r.Totals)
	}
}

// TestCallOfManyValues shows that the digests of values count, too.
func TestCallOfManyValues(t *testing.T) {
	c := syncCall(`{}`, `{}`, `{}`)
	entries := make([]hook.Entry, 100)
	for i := range entries {
		entries[i] = hook.Entry{Name: strconv.Itoa(i), Object: fmt.Appendf(nil, `{"a":%d}`, i)}
	}
	c.Sent.Sync.Children[0].Objects = entries
	for limit, want := range map[int]uint64{8 << 10: 1, 16 << 10: 0} {
		var file bytes.Buffer
		w := NewWriter(&file, segment)
		w.maxLine = limit
		addCall(t, w, c)
		must.Succeed(t, w.Flush())
		if _, r, err := readAll(t, &file); err != nil || r.Totals.Oversized != want {
			t.Errorf("with %d bytes: %v, %+v", limit, err, r.Totals)
		}
	}
}

// TestHugeSegment bounds the memory of a reader of a file that other programs have made.
func TestHugeSegment(t *testing.T) {
	var file bytes.Buffer
	writeCalls(t, &file, 100)
	r := NewReader(&file)
	r.maxBytes = 200
	var err error
	for err == nil {
		_, err = r.Next()
	}
	if !strings.Contains(err.Error(), "a segment with values of more than 200 bytes") {
		t.Errorf("got %v", err)
	}
}

// TestOtherKindsOfFiles refuses what cannot be read back.
func TestOtherKindsOfFiles(t *testing.T) {
	if _, err := OpenFile(FileOptions{Path: os.DevNull, Segment: segment, MaxBytes: MinFileSize, Rotate: true}); err == nil || !strings.Contains(err.Error(), "is no regular file") {
		t.Errorf("got %v", err)
	}
}
