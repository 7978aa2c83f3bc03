package plan

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"
	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/object"
)

var update = flag.Bool("update", false, "write what the cases in testdata yield into their last file")

// eachVector runs a case for each archive and compares the result with its last file.
func eachVector(t *testing.T, pattern string, got func(t *testing.T, files map[string][]byte) string) {
	t.Helper()
	paths, err := filepath.Glob(pattern)
	if err != nil || len(paths) == 0 {
		t.Fatalf("no cases in %s: %v", pattern, err)
	}
	for _, path := range paths {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			archive := must.Get(txtar.ParseFile(path)).In(t)
			last := &archive.Files[len(archive.Files)-1]
			files := map[string][]byte{}
			for _, file := range archive.Files {
				files[file.Name] = file.Data
			}
			text := got(t, files)
			if text == string(last.Data) {
				return
			}
			if !*update {
				t.Fatalf("%s: got\n%s\nwant\n%s", last.Name, text, last.Data)
			}
			last.Data = []byte(text)
			must.Succeed(t, os.WriteFile(path, txtar.Format(archive), 0o644))
		})
	}
}

// treeOf parses YAML into a JSON value; never nil.
func treeOf(t *testing.T, text []byte) any {
	t.Helper()
	if len(bytes.TrimSpace(text)) == 0 {
		return nil
	}
	data := must.Get(yaml.YAMLToJSON(text)).In(t)
	wrapped := must.Get(object.Decode([]byte(`{"it":` + string(data) + `}`))).In(t)
	return wrapped["it"]
}

func jsonOf(t testing.TB, value any) string {
	t.Helper()
	return string(must.Get(json.Marshal(value)).In(t))
}
