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
	output := must.Get(exec.CommandContext(t.Context(), "go", "list", "-deps", ".", "./examples/exchangerate").Output()).In(t)
	for pkg := range strings.Lines(string(output)) {
		for _, library := range []string{"github.com/google/cel-go", "modernc.org/", "go.starlark.net/", "github.com/elastic/", "github.com/spf13/cobra"} {
			if strings.HasPrefix(pkg, library) {
				t.Errorf("a program of the SDK links %s", strings.TrimSpace(pkg))
			}
		}
	}
}
