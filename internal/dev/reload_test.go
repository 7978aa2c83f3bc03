package dev

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/dev/project"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// An error that is taken back is not the last line, even if the files are then as they were applied.
func TestErrorThatIsTakenBack(t *testing.T) {
	const again = "shop.yaml changed: the manifests are again as they were applied"
	applied := manifest.Changes{Applied: []object.Ref{{Name: "a"}}}
	for name, test := range map[string]struct {
		failure error
		then    manifest.Changes
		says    bool
	}{
		"taken back": {errors.New("a colon is missing"), manifest.Changes{}, true},
		"corrected":  {errors.New("a colon is missing"), applied, false},
		"no error":   {nil, manifest.Changes{}, false},
	} {
		var out bytes.Buffer
		w := &workspace{changed: "shop.yaml changed", reporter: progress.New(progress.Options{Out: &out})}
		w.reportSync(time.Second, manifest.Changes{}, test.failure)
		w.reportSync(time.Second, test.then, nil)
		w.reportSync(time.Second, manifest.Changes{}, nil)
		w.reporter.Close()
		if n := strings.Count(out.String(), again); (n == 1) != test.says || n > 1 {
			t.Errorf("%s: it prints\n%s", name, out.String())
		}
	}
}

// A session goes on where files cannot be watched, as when too many programs do, or where a folder is none.
func TestFilesThatCannotBeWatched(t *testing.T) {
	var out bytes.Buffer
	s := &session{Options: Options{Reporter: progress.New(progress.Options{Out: &out})}, locals: locals{{Process: project.Process{Dir: "reload.go/x"}}}}
	err := s.watchFiles(t.Context())
	s.Reporter.Close()
	if err != nil || !strings.Contains(out.String(), "not a directory: changed files need a new session (if too many") {
		t.Errorf("%v, and it prints %s", err, out.String())
	}
}
