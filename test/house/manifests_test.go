package house

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"regexp"
	"testing"
)

// Fault G14: Setpoint's manifests in the docs have one namespace.
func TestManifestsShareANamespace(t *testing.T) {
	other := regexp.MustCompile(`name: setpoint(?:-admission)?, namespace: (\S+?)[,}]`)
	found := 0
	for _, page := range markdownFiles(t) {
		text := must.Get(os.ReadFile(page)).In(t)
		for _, m := range other.FindAllStringSubmatch(string(text), -1) {
			found++
			if m[1] != "setpoint-system" {
				t.Errorf("%s puts Setpoint into the namespace %s; it is setpoint-system everywhere", page, m[1])
			}
		}
	}
	if found == 0 {
		t.Error("no page has such a manifest: is the expression right?")
	}
}
