package supportbundle

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

	"github.com/setpoint-dev/setpoint/internal/redact/guess"
)

// root is the folder of all files.
const root = "setpoint-support-bundle/"

// maxFile is the most of one file.
const maxFile = 8 << 20

// archive collects files, masks them, and bounds them. What is added with an error is missing.
type archive struct {
	compressed *gzip.Writer
	tar        *tar.Writer
	time       time.Time
	// files are those that are in the archive, missing says what is not.
	files, missing []string
}

func newArchive(out io.Writer, at time.Time) *archive {
	compressed := gzip.NewWriter(out)
	return &archive{compressed: compressed, tar: tar.NewWriter(compressed), time: at}
}

// addText adds a text, with what looks like a secret masked.
func (a *archive) addText(name string, text []byte, err error) {
	a.add(name, []byte(guess.Text(string(text))), err)
}

// addJSON adds a value with its names as in JSON, masked.
func (a *archive) addJSON(name string, value any, err error) {
	text, invalid := json.Marshal(value)
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.UseNumber() // IDs of runs are longer than a float.
	var plain any
	_ = decoder.Decode(&plain)                                    // It was encoded here.
	text, _ = json.MarshalIndent(guess.JSON("", plain), "", "  ") //nolint:errchkjson // It was decoded.
	a.add(name, append(text, '\n'), errors.Join(err, invalid))
}

// add adds what is masked, since what is left of a secret after the cut has no name.
func (a *archive) add(name string, data []byte, err error) {
	if len(data) > maxFile {
		a.miss(name, fmt.Errorf("cut to %d of %d bytes", maxFile, len(data)))
		data = data[:maxFile]
	}
	if err != nil {
		a.miss(name, err)
		return
	}
	a.files = append(a.files, name)
	header := &tar.Header{Name: root + name, Mode: 0o600, Size: int64(len(data)), ModTime: a.time, Format: tar.FormatPAX}
	_ = a.tar.WriteHeader(header) // The writer keeps its first error for close.
	_, _ = a.tar.Write(data)
}

// miss notes what is not in the archive.
func (a *archive) miss(name string, err error) {
	a.missing = append(a.missing, guess.Text(name+": "+strings.Join(strings.Fields(err.Error()), " ")))
}

// close adds the summary, and returns the first error of writing.
func (a *archive) close() error {
	a.add("summary.txt", fmt.Appendf(nil, "Setpoint's support bundle of %s. Secrets are not read; what looks like one is %s.\n"+
		"Look at the files before you send them.\n\nFiles:\n  %s\n\nNot read:\n  %s\n", a.time.UTC().Format(time.RFC3339), guess.Mask,
		strings.Join(a.files, "\n  "), strings.Join(a.missing, "\n  ")), nil)
	return errors.Join(a.tar.Close(), a.compressed.Close())
}
