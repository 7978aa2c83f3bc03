package manifest_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// TestRewriteKeepsLineEndings writes the lines of a new value as the file has its own.
func TestRewriteKeepsLineEndings(t *testing.T) {
	const (
		before = "apiVersion: test.setpoint.dev/v1alpha1\nkind: Case\nmetadata: {name: a}\nexpect:\n  children: [] # none\n  status: {ready: 1}\n"
		after  = "apiVersion: test.setpoint.dev/v1alpha1\nkind: Case\nmetadata: {name: a}\nexpect:\n  children: [] # none\n  status: {ready: 2}\n"
	)
	for _, ending := range []string{"\n", "\r\n"} {
		file := filepath.Join(t.TempDir(), "case.yaml")
		text := strings.ReplaceAll(before, "\n", ending)
		for _, given := range []string{text, strings.TrimSuffix(text, ending)} {
			must.Succeed(t, os.WriteFile(file, []byte(given), 0o600))
			documents := must.Get(manifest.ReadWithTests([]string{file})).In(t)
			value := map[string]any{"children": []any{}, "status": map[string]any{"ready": 2}}
			must.Succeed(t, manifest.Rewrite([]manifest.Replacement{{Document: documents[0], Field: "expect", Value: value}}))
			if got, err := os.ReadFile(file); err != nil || string(got) != strings.ReplaceAll(after, "\n", ending) {
				t.Errorf("%q: %v", got, err)
			}
		}
	}
}
