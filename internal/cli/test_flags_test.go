package cli

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// TestOutputsAreChecked reports files that cannot be written before anything runs.
func TestOutputsAreChecked(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "file")
	must.Succeed(t, os.WriteFile(file, nil, 0o600))
	for value, want := range map[string]string{
		filepath.Join(dir, "none", "x"): "the folder " + filepath.Join(dir, "none") + " does not exist",
		filepath.Join(file, "x"):        file + " is no folder",
		dir:                             dir + " is a folder; give a file",
	} {
		code, _, shown := invoke(t.Context(), "test", dir, "--junit", value)
		if code != command.WrongUsage || !strings.Contains(shown, "error: --junit: ") || !strings.Contains(shown, want) {
			t.Errorf("%s: exit code %d, %s", value, code, shown)
		}
	}
}

// TestFlagsWithoutEffect are wrong usage.
func TestFlagsWithoutEffect(t *testing.T) {
	for args, want := range map[string]string{
		"--update --only explore":        "--update is for cases; add cases to --only, or omit --update",
		"--update --only explore,replay": "--update is for cases; add cases to --only, or omit --update",
	} {
		code, _, shown := invoke(t.Context(), append([]string{"test", t.TempDir()}, strings.Fields(args)...)...)
		if code != command.WrongUsage || !strings.Contains(shown, "error: "+want) {
			t.Errorf("%s: exit code %d, %s", args, code, shown)
		}
	}
}
