package explore_test

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/explore"
)

// TestMemoryOfHooksIsFound explores a hook that responds equally to equal requests until it has seen another one.
func TestMemoryOfHooksIsFound(t *testing.T) {
	seen := map[string]bool{}
	options := system(t, func(parent thing, _ *hook.Request) *hook.Response {
		seen[parent.Spec.Text] = true
		return &hook.Response{Status: json.RawMessage(fmt.Sprintf(`{"texts":%d}`, len(seen)))}
	})
	options.Workers = 1 // The hook is no test of concurrent calls.
	options.Edits = []explore.Edit{editOf("other text", map[string]any{"text": "y"})}
	options.Bounds = explore.Bounds{Edits: 1}
	report := run(t, options)
	if len(report.Violations) == 0 || report.Violations[0].Property != explore.Deterministic {
		t.Fatalf("violations: %v", report.Violations)
	}
	wantText(t, report.Text(), "the hook things sync responds to one request in two ways: the response depends on earlier calls; they differ in status.texts")
}
