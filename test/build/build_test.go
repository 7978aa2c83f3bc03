// Package build tests the scripts of tools/ that build programs, or check what was built elsewhere. Who calls: make check.
package build

import (
	"path/filepath"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/setpoint-dev/setpoint/internal/must"
)

// TestScripts runs the scripts of testdata, for which programs are played.
func TestScripts(t *testing.T) {
	tools := must.Get(filepath.Abs(filepath.Join("..", "..", "tools"))).In(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata", RequireExplicitExec: true, RequireUniqueNames: true,
		Setup: func(env *testscript.Env) error {
			env.Setenv("TOOLS", tools)
			return nil
		},
	})
}
