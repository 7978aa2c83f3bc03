package house

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"os/exec"
	"strings"
	"testing"
)

// TestProgramsLinkNoEngines checks what a program of the SDK is made of: languages and expressions, and the
// command line, are for the command setpoint. Only tests link package setpointtest, whose explorations have expressions.
func TestProgramsLinkNoEngines(t *testing.T) {
	expectNotLinked(t, []string{".", "./examples/exchangerate"},
		"github.com/google/cel-go", "modernc.org/", "go.starlark.net/", "github.com/elastic/", "github.com/spf13/cobra")
}

// TestClusterRunsNoCommands checks what a cluster runs: nothing that only a developer needs.
func TestClusterRunsNoCommands(t *testing.T) {
	expectNotLinked(t, []string{"./cmd/setpoint-controller"},
		module+"/internal/dev/project", module+"/internal/explore", module+"/internal/testcase", module+"/internal/scaffold",
		module+"/internal/typegen", module+"/internal/workspace", module+"/internal/cli/processes", module+"/js", "k8s.io/apiserver",
		"k8s.io/apiextensions-apiserver", "k8s.io/streaming", "github.com/fsnotify")
}

// expectNotLinked expects that programs link no package whose path begins in one of some ways.
func expectNotLinked(t *testing.T, programs []string, unwanted ...string) {
	t.Helper()
	output := must.Get(exec.CommandContext(t.Context(), "go", append([]string{"list", "-deps"}, programs...)...).Output()).In(t)
	for pkg := range strings.Lines(string(output)) {
		for _, prefix := range unwanted {
			if strings.HasPrefix(pkg, prefix) {
				t.Errorf("%v: %s is linked", programs, strings.TrimSpace(pkg))
			}
		}
	}
}
