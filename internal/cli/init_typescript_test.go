package cli

import (
	"bytes"
	"flag"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// tsc is given by make typescript-types.
var tsc = flag.String("tsc", "", "the compiler of TypeScript, with @types/node beside it, which checks new operators")

// The declarations of setpoint types and of the package are right, and so is what uses them in a new operator. A wrong
// field of a response is found.
func TestTypeScriptOperators(t *testing.T) {
	if *tsc == "" {
		return
	}
	compiler := must.Get(filepath.EvalSymlinks(*tsc)).In(t)
	types := filepath.Join(filepath.Dir(compiler), "..", "..", "@types")
	check := func(dir string) (string, error) {
		out, err := exec.CommandContext(t.Context(), compiler, "--project", dir, "--typeRoots", types, "--types", "node").CombinedOutput()
		return string(out), err
	}
	for _, scope := range []string{"Namespaced", "Cluster"} {
		dir := filepath.Join(t.TempDir(), "shop")
		p := &command.Invocation{Stdin: strings.NewReader(""), Stdout: &bytes.Buffer{}, Stderr: t.Output()}
		args := []string{"init", "shop", "--language=typescript", "--scope=" + scope, "--children=configmaps,deployments,services", "--output=" + dir}
		if code := execute(t.Context(), p, Extras{}, args); code != command.OK {
			t.Fatal(code)
		}
		if out, err := check(dir); err != nil {
			t.Errorf("%s: %v\n%s", scope, err, out)
		}
		logic := filepath.Join(dir, "sync.ts")
		text := must.Get(os.ReadFile(logic)).In(t)
		must.Succeed(t, os.WriteFile(logic, bytes.Replace(text, []byte("    children: ["), []byte("    kids: ["), 1), 0o600))
		if out, err := check(dir); err == nil || !strings.Contains(out, "'kids' does not exist") {
			t.Errorf("%s, wrong: %v\n%s", scope, err, out)
		}
	}
}
