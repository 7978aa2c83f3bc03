package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// root is the folder in the archive.
const root = "setpoint-support-bundle/"

// maxFile is the most bytes of one file.
const maxFile = 8 << 20

// archive is the archive in the making. Its errors are kept until it is closed.
type archive struct {
	compressed *gzip.Writer
	tar        *tar.Writer
	time       time.Time
	// left is how many bytes may still be added.
	left int
	// files are those that are in the archive, missing says what is not.
	files, missing []string
	err            error
}

func newArchive(out io.Writer, at time.Time, maxBytes int) *archive {
	compressed := gzip.NewWriter(out)
	return &archive{compressed: compressed, tar: tar.NewWriter(compressed), time: at, left: maxBytes}
}

// addText adds a text file, masked.
func (a *archive) addText(name string, text []byte) {
	text = []byte(maskText(string(text))) // Before it is cut: what is left of a secret has no name any more.
	if len(text) > maxFile {
		a.miss(name, fmt.Errorf("cut to %d of %d bytes", maxFile, len(text)))
		text = text[:maxFile]
	}
	a.add(name, text)
}

// addJSON adds a value as indented JSON, masked.
func (a *archive) addJSON(name string, value any) {
	data, err := json.Marshal(value)
	if err != nil {
		a.miss(name, err)
		return
	}
	var plain any
	decoder := json.NewDecoder(bytes.NewReader(data))
	decoder.UseNumber() // IDs of runs are longer than a float.
	if err := decoder.Decode(&plain); err != nil {
		a.miss(name, err)
		return
	}
	if data, err = json.MarshalIndent(maskValue(plain), "", "  "); err != nil {
		a.miss(name, err)
		return
	}
	a.addMasked(name, append(data, '\n'))
}

// addObjects adds objects of the API as a List, masked and sorted.
func (a *archive) addObjects(name string, objects []map[string]any) {
	slices.SortFunc(objects, func(x, y map[string]any) int { return strings.Compare(keyOf(x), keyOf(y)) })
	for _, o := range objects {
		maskObject(o)
	}
	data, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		a.miss(name, err)
		return
	}
	a.addMasked(name, data)
}

// keyOf orders objects.
func keyOf(o map[string]any) string {
	metadata, _ := o["metadata"].(map[string]any)
	return fmt.Sprint(o["kind"], "/", metadata["namespace"], "/", metadata["name"])
}

// addMasked adds data whose values are masked already.
func (a *archive) addMasked(name string, data []byte) {
	if len(data) > maxFile {
		a.miss(name, fmt.Errorf("cut to %d of %d bytes", maxFile, len(data)))
		data = data[:maxFile]
	}
	a.add(name, data)
}

// add adds a file as it is.
func (a *archive) add(name string, data []byte) {
	if len(data) > a.left {
		a.miss(name, errors.New("left out: the bundle would be larger than its limit (--max-size)"))
		return
	}
	a.left -= len(data)
	a.files = append(a.files, name)
	a.write(name, data)
}

func (a *archive) write(name string, data []byte) {
	if a.err == nil {
		a.err = a.tar.WriteHeader(&tar.Header{Name: root + name, Mode: 0o600, Size: int64(len(data)), ModTime: a.time, Format: tar.FormatPAX})
	}
	if a.err == nil {
		_, a.err = a.tar.Write(data)
	}
}

// miss notes what is not in the archive.
func (a *archive) miss(name string, err error) {
	a.missing = append(a.missing, maskText(name+": "+strings.Join(strings.Fields(err.Error()), " ")))
}

// close adds the summary, and ends the archive.
func (a *archive) close(heading string) error {
	text := heading + "\nFiles:\n  " + strings.Join(a.files, "\n  ") + "\n\nNot read:\n  "
	if len(a.missing) == 0 {
		text += "nothing"
	}
	a.write("summary.txt", []byte(text+strings.Join(a.missing, "\n  ")+"\n"))
	for _, end := range []func() error{a.tar.Close, a.compressed.Close} {
		if err := end(); a.err == nil {
			a.err = err
		}
	}
	return a.err
}
