package record

import (
	"bytes"
	"encoding/json"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/clitest"
	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/internal/recording"
)

// TestCases prints the latest of the calls with one request, and what the recording lacks.
func TestCases(t *testing.T) {
	path := filepath.Join(t.TempDir(), "calls")
	file := must.Get(recording.OpenFile(recording.FileOptions{Path: path, MaxBytes: recording.MinFileSize})).In(t)
	w := must.Get(file.Writer()).In(t)
	for _, c := range []struct{ controller, parent, response string }{
		{"compositecontroller.setpoint.dev/teams", `{"count":1}`, `{"status":{"count":1}}`},
		{"compositecontroller.setpoint.dev/teams", `{"count":1}`, `{"status":{"count":2}}`},
		{"compositecontroller.setpoint.dev/teams", `{"count":2}`, `{}`},
		{"compositecontroller.setpoint.dev/others", `{"count":3}`, `{}`},
	} {
		call := &recording.Call{Hook: "sync", Controller: c.controller, Object: clitest.Team()}
		must.Succeed(t, w.Add(call, json.RawMessage(`{"parent":`+c.parent+`}`), json.RawMessage(c.response)))
	}
	w.AddTotals(recording.Totals{Dropped: 3})
	must.Succeed(t, file.Close())
	for controller, want := range map[string]struct {
		names  string
		status bool
		note   string
	}{
		"teams": {"red-2-0 red-3-0", true, ""}, "": {"red-2-0 red-3-0 red-4-0", true, ""}, "none": {"", false, "has no such call\n"},
	} {
		var out, notes bytes.Buffer
		must.Succeed(t, printCases(&command.Invocation{Stdout: &out, Stderr: &notes}, path, recording.Filter{Controller: controller}))
		var names []string
		for line := range strings.Lines(out.String()) {
			if name, is := strings.CutPrefix(line, "  name: "); is {
				names = append(names, strings.TrimSpace(name))
			}
		}
		if got := strings.Join(names, " "); got != want.names || strings.Contains(out.String(), "status:\n    count: 2\n") != want.status ||
			strings.Contains(out.String(), "count: 1\nhook") || !strings.Contains(notes.String(), "lacks calls: 3 came too fast, 0 are too large\n") ||
			!strings.HasSuffix(notes.String(), want.note) {
			t.Errorf("%q: %s\n%s\n%s", controller, got, out.String(), notes.String())
		}
	}
	if err := printCases(&command.Invocation{}, "cases_test.go", recording.Filter{}); err == nil || err.Error() != "cases_test.go: is no recording of setpoint" {
		t.Errorf("got %v", err)
	}
}
