package bundle

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/yaml"
)

// root is the folder of all files.
const root = "setpoint-support-bundle/"

// The limits of one file, and of all together.
const (
	maxFile = 8 << 20
	maxAll  = 100 << 20
)

// archive collects files, masks them, and bounds them.
type archive struct {
	compressed *gzip.Writer
	tar        *tar.Writer
	time       time.Time
	size       int
	// files are those that are in the archive, missing says what is not.
	files, missing []string
	err            error
}

func newArchive(out io.Writer, at time.Time) *archive {
	compressed := gzip.NewWriter(out)
	return &archive{compressed: compressed, tar: tar.NewWriter(compressed), time: at}
}

// addText adds a text, with what looks like a secret masked.
func (a *archive) addText(name string, text []byte) { a.add(name, []byte(maskText(string(text)))) }

// addJSON adds a value with its names as in JSON, masked.
func (a *archive) addJSON(name string, value any) {
	data, err := json.Marshal(value)
	var plain any
	if err == nil {
		decoder := json.NewDecoder(bytes.NewReader(data))
		decoder.UseNumber() // IDs of runs are longer than a float.
		err = decoder.Decode(&plain)
	}
	if err == nil {
		data, err = json.MarshalIndent(maskValue(plain), "", "  ")
	}
	if err != nil {
		a.miss(name, err)
		return
	}
	a.add(name, append(data, '\n'))
}

// addObjects adds objects of the API as one list, masked.
func (a *archive) addObjects(name string, objects []map[string]any) {
	for _, o := range objects {
		maskObject(o)
	}
	data, err := yaml.Marshal(map[string]any{"apiVersion": "v1", "kind": "List", "items": objects})
	if err != nil {
		a.miss(name, err)
		return
	}
	a.add(name, data)
}

// add adds what is masked, since what is left of a secret after the cut has no name.
func (a *archive) add(name string, data []byte) {
	if len(data) > maxFile {
		a.miss(name, fmt.Errorf("cut to %d of %d bytes", maxFile, len(data)))
		data = data[:maxFile]
	}
	if a.size += len(data); a.size > maxAll {
		a.miss(name, errors.New("left out: the bundle is too large"))
		return
	}
	a.files = append(a.files, name)
	a.write(name, data)
}

func (a *archive) write(name string, data []byte) {
	if a.err == nil {
		a.err = a.tar.WriteHeader(&tar.Header{Name: root + name, Mode: 0o600, Size: int64(len(data)), ModTime: a.time,
			Format: tar.FormatPAX})
	}
	if a.err == nil {
		_, a.err = a.tar.Write(data)
	}
}

// miss notes what is not in the archive.
func (a *archive) miss(name string, err error) {
	a.missing = append(a.missing, maskText(name+": "+strings.Join(strings.Fields(err.Error()), " ")))
}

// close adds the summary, and returns the first error of writing.
func (a *archive) close() error {
	a.write("summary.txt", []byte("Setpoint's support bundle of "+a.time.UTC().Format(time.RFC3339)+
		". Secrets are not read; what looks like one is "+masked+
		".\nLook at the files before you send them.\n\nFiles:\n  "+strings.Join(a.files, "\n  ")+"\n\nNot read:\n  "+
		strings.Join(a.missing, "\n  ")+"\n"))
	return errors.Join(a.err, a.tar.Close(), a.compressed.Close())
}
