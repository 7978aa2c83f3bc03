package dryrun

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var update = flag.Bool("update", false, "write what is got into the files")

// TestText reads report.json and compares the text with plain.txt and color.txt, with \<31m for the
// code of red.
func TestText(t *testing.T) {
	paths, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases: %v", err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := must.Get(txtar.ParseFile(path)).In(t)
			report := reportOf(t, archive.Files[0].Data)
			wrong := false
			for i := range archive.Files[1:] {
				f := &archive.Files[i+1]
				if got := written(t, report, f.Name); got != string(f.Data) {
					wrong = true
					t.Logf("%s: got\n%s\nwant\n%s", f.Name, got, f.Data)
					f.Data = []byte(got)
				}
			}
			if !wrong {
				return
			}
			if !*update {
				t.Fatal("go test ./internal/dryrun -update, if that is what it should be")
			}
			must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
		})
	}
}

// reportOf reads a report and recomputes its summary.
func reportOf(t *testing.T, text []byte) Report {
	t.Helper()
	decoder := json.NewDecoder(bytes.NewReader(text))
	decoder.DisallowUnknownFields()
	var r Report
	must.Succeed(t, decoder.Decode(&r))
	r.summarize()
	return r
}

func written(t *testing.T, r Report, file string) string {
	t.Helper()
	var out bytes.Buffer
	must.Succeed(t, r.WriteText(&out, Style{Color: file == "color.txt", Idle: file != "busy.txt"}))
	return strings.ReplaceAll(out.String(), "\x1b[", "<")
}

// Go's encoder escapes HTML for browsers; a plan is read by people.
func TestChangesShowHTML(t *testing.T) {
	change := FieldChange{FieldChange: object.FieldChange{Path: "data.page", From: json.RawMessage(`"\u003ch1\u003e"`), To: json.RawMessage(`"a \u0026 b"`)}}
	if got, want := change.String(), `data.page: "<h1>" -> "a & b"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}
