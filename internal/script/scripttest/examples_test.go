package scripttest

import (
	"bytes"
	"encoding/json"
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// TestSameResponseAsTheWebhook compares hooks with the Python of the example that they were written
// after: the bytes are the same.
func TestSameResponseAsTheWebhook(t *testing.T) {
	for example, module := range map[string]string{"immortalcontainer": "sync", "rolling-set": "hook"} {
		requests, err := filepath.Glob(filepath.Join("testdata", example, "requests", "*.json"))
		if err != nil || len(requests) == 0 {
			t.Fatalf("no requests for %s: %v", example, err)
		}
		for _, path := range requests {
			request := read(t, path)
			want := fromPython(t, filepath.Join("..", "..", "..", "examples", example), module, request)
			for _, l := range languages {
				p := l.load(t, read(t, filepath.Join("testdata", example, "sync"+l.ending)))
				if got := call(t, p, request); got != want {
					t.Errorf("%s in %s: got\n%s\nwant\n%s", path, l.name, got, want)
				}
			}
		}
	}
}

func fromPython(t *testing.T, dir, module, request string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "python3", "-c", "import json, sys, "+module+" as m; print(json.dumps(m.sync(json.load(sys.stdin)), ensure_ascii=False))")
	cmd.Dir = dir
	cmd.Env = append(os.Environ(), "PYTHONDONTWRITEBYTECODE=1")
	cmd.Stdin = bytes.NewBufferString(request)
	response := must.Get(cmd.Output()).In(t)
	var compact bytes.Buffer
	must.Succeed(t, json.Compact(&compact, response))
	return compact.String()
}

func read(t testing.TB, path string) string {
	t.Helper()
	text := must.Get(os.ReadFile(path)).In(t)
	return string(text)
}
