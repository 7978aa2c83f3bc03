package failure_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// A release links to its own pages, every other build to those of the main branch.
func TestPage(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "v1.2.3", "v1.2.3-rc.1": "v1.2.3-rc.1", "": "main", "unknown": "main", "dev": "main", "6bc94e1": "main",
		"v1.2.3-4-g6bc94e1": "main", "v1.2.3-dirty": "main", "v1.2.3-rc.1-4-g6bc94e1": "main", "(devel)": "main",
		"v0.0.0-20261122214021-e37518e41a2b": "main", "v1.2.3+dirty": "main",
	} {
		want = "https://github.com/setpoint-dev/setpoint/blob/" + want + "/docs/glossary.md#hookfailed"
		if got := failure.Page("HookFailed", version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
