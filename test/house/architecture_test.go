package house

import (
	"os"
	"regexp"
	"strings"
	"testing"
)

// TestArchitecturePage compares the list of packages in docs/architecture.md with the repository:
// every package is in it, and the lines are in the order of the layers.
func TestArchitecturePage(t *testing.T) {
	text, err := os.ReadFile("docs/architecture.md")
	if err != nil {
		t.Fatal(err)
	}
	row := regexp.MustCompile("(?m)^\\| `([^`]+)`")
	var listed []string
	highest := 0
	for _, found := range row.FindAllStringSubmatch(string(text), -1) {
		pattern := strings.Replace(found[1], "…", "...", 1)
		layer := layerOf(strings.TrimSuffix(pattern, "/..."))
		if layer >= 0 && layer < highest {
			t.Errorf("docs/architecture.md: %s is in a lower layer than a line above it", found[1])
		}
		highest = max(highest, layer)
		listed = append(listed, pattern)
	}
	for _, f := range parseRepository(t) {
		if f.shipped() && !strings.HasPrefix(f.pkg, "examples") && !strings.HasPrefix(f.pkg, "tools") && !matchesAny(listed, f.pkg) {
			t.Errorf("docs/architecture.md does not list %s", f.pkg)
		}
	}
}
