package explore_test

import (
	"context"
	"encoding/json"
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller/composite"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/loop"
	"github.com/setpoint-dev/setpoint/internal/explore/property"
	"github.com/setpoint-dev/setpoint/internal/explore/world"
)

// TestMemoryOfHooksIsFound explores a hook that responds equally to equal requests until it has seen another one.
func TestMemoryOfHooksIsFound(t *testing.T) {
	seen := map[string]bool{}
	options := system(t, func(parent thing, _ *hook.Request) *hook.Response {
		seen[parent.Spec.Text] = true
		return &hook.Response{Status: json.RawMessage(fmt.Sprintf(`{"texts":%d}`, len(seen)))}
	})
	options.Workers = 1 // The hook is no test of concurrent calls.
	options.Edits = []world.Edit{editOf("other text", map[string]any{"text": "y"})}
	options.Bounds = explore.Bounds{Edits: 1}
	report := run(t, options)
	if len(report.Violations) == 0 || report.Violations[0].Property != property.Deterministic {
		t.Fatalf("violations: %v", report.Violations)
	}
	wantText(t, report.String(), "the hook things sync responds to one request in two ways: the response depends on earlier calls; they differ in status.texts")
}

// TestARestartShowsWhatHooksRemember explores a hook that keeps the first text of each thing: it responds to equal requests
// equally, and so does each process that has just started, until it has seen another text.
func TestARestartShowsWhatHooksRemember(t *testing.T) {
	remembering := func() composite.Program {
		first := map[string]string{}
		return programOf(func(parent thing, r *hook.Request) *hook.Response {
			if _, known := first[parent.Metadata.Name]; !known {
				first[parent.Metadata.Name] = parent.Spec.Text
			}
			parent.Spec.Text = first[parent.Metadata.Name]
			return numbered(parent, r)
		})
	}
	options := systemOf(t.Context(), t, remembering())
	options.Workers = 1 // The hook is no test of concurrent calls.
	options.Edits = []world.Edit{editOf("other text", map[string]any{"text": "y"})}
	options.Bounds = explore.Bounds{Edits: 1}
	restarts := 0
	options.Restart = func(context.Context) (loop.Programs, func(), error) {
		restarts++
		return loop.Programs{Compose: []composite.Program{remembering()}}, func() { restarts-- }, nil
	}
	report := run(t, options)
	wantViolations(t, report, property.Deterministic)
	wantText(t, report.String(), "the hook things sync responds to one request in two ways: a process that has just started responds otherwise; they differ in children[0].data.text")
	if restarts != 0 {
		t.Errorf("%d processes were not stopped", restarts)
	}
}
