package house

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestRegressionsHaveTests reads test/faults.md: each row names a fault that was seen once and
// the tests that hold its fix. A test that is renamed takes its row along.
func TestRegressionsHaveTests(t *testing.T) {
	page := must.Get(os.ReadFile("test/faults.md")).In(t)
	row := regexp.MustCompile(`(?m)^\| ([A-Z]\d+) \| .* \| ([^|]*) \|$`)
	quoted := regexp.MustCompile("`([^`:]+)(?:: (\\w+))?`")
	rows := row.FindAllStringSubmatch(string(page), -1)
	if lines := strings.Count(string(page), "\n| ") - 2; lines != len(rows) {
		t.Errorf("%d of %d rows have the form `| H1 | what was seen | tests |`", len(rows), lines)
	}
	for _, r := range rows {
		tests := quoted.FindAllStringSubmatch(r[2], -1)
		if len(tests) == 0 {
			t.Errorf("%s names no test: %q", r[1], r[2])
		}
		for _, named := range tests {
			source, err := os.ReadFile(named[1])
			if err != nil {
				t.Errorf("%s: %v", r[1], err)
			} else if named[2] != "" && !declares(string(source), named[2]) {
				t.Errorf("%s: %s has no %s", r[1], named[1], named[2])
			}
		}
	}
}

// declares reports whether a test file declares a test or a class of tests, in Go or Python.
func declares(source, name string) bool {
	return strings.Contains(source, "func "+name+"(") || strings.Contains(source, "def "+name+"(") || strings.Contains(source, "class "+name+"(")
}
