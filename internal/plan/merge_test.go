package plan

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// TestMerge reads observed.yaml, applied.yaml and desired.yaml, and compares the result with
// merged.yaml.
func TestMerge(t *testing.T) {
	eachVector(t, "testdata/merge/*.txtar", func(t *testing.T, files map[string][]byte) string {
		observed, applied, desired := treeOf(t, files["observed.yaml"]), treeOf(t, files["applied.yaml"]), treeOf(t, files["desired.yaml"])
		before := jsonOf(t, []any{observed, applied, desired})
		merged := yamlOf(t, merger{keys: object.ChildKeys}.merge(observed, applied, desired))
		if after := jsonOf(t, []any{observed, applied, desired}); after != before {
			t.Errorf("the inputs were changed to %s", after)
		}
		return merged
	})
}

// Empty values that were applied and are absent were dropped by the server.
func TestIgnoreEmpty(t *testing.T) {
	for name, c := range map[string]struct{ observed, applied, desired, merged string }{
		"dropped": {
			`{}`, `{env: [], labels: {}, value: "", tty: false, n: 0}`, `{env: [], labels: {}, value: "", tty: false, n: 0.0}`, `{}`},
		"never applied": {
			`{}`, `{}`, `{env: [], labels: {}}`, `{env: [], labels: {}}`},
		"applied as something else": {
			`{}`, `{env: [{name: a}], tty: true, s: ""}`, `{env: [], tty: false, s: x}`, `{env: [], tty: false, s: x}`},
		"in items of lists": {
			`{env: [{name: A}]}`, `{env: [{name: A, value: ""}]}`, `{env: [{name: A, value: ""}]}`, `{env: [{name: A}]}`},
		"not dropped but changed": {
			`{tty: true, n: 1}`, `{tty: false, n: 0}`, `{tty: false, n: 0}`, `{tty: false, n: 0}`},
	} {
		got := merger{keys: object.ChildKeys, ignoreEmpty: true}.merge(
			treeOf(t, []byte(c.observed)), treeOf(t, []byte(c.applied)), treeOf(t, []byte(c.desired)))
		if fieldPath := object.FirstDifference(got, treeOf(t, []byte(c.merged))); fieldPath != "" {
			t.Errorf("%s: got %s, want %s", name, jsonOf(t, got), c.merged)
		}
	}
}
