package operator

import (
	"cmp"
	"context"
	"fmt"
	"os/exec"
	"path/filepath"
	"strings"
)

// The oldest supported version of Python.
const minMajor, minMinor = 3, 9

// FindInterpreter returns the path and the version of the interpreter: the one of the flag, else that of the
// virtual environment, else python3. It runs it to see its version; the expression is valid in every version of Python.
func FindInterpreter(ctx context.Context, flag, virtualEnv string) (path, found string, err error) {
	name := cmp.Or(flag, "python3")
	if flag == "" && virtualEnv != "" {
		name = filepath.Join(virtualEnv, "bin", "python3")
	}
	path, err = exec.LookPath(name)
	if err != nil {
		return "", "", fmt.Errorf("find Python %d.%d or newer: %w; install it, or use --python-interpreter PATH", minMajor, minMinor, err)
	}
	//nolint:gosec // The user chooses the interpreter.
	output, err := exec.CommandContext(ctx, path, "-c", `import sys; print("Python %d.%d.%d" % sys.version_info[:3])`).CombinedOutput()
	found = strings.TrimSpace(string(output))
	var major, minor, micro int
	if _, scanErr := fmt.Sscanf(found, "Python %d.%d.%d", &major, &minor, &micro); scanErr != nil {
		return "", "", fmt.Errorf("%s is no Python interpreter (%w): it printed %.80q", path, cmp.Or(err, scanErr), found)
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return "", "", fmt.Errorf("%s is %s, and operators need Python %d.%d or newer: use --python-interpreter PATH",
			path, found, minMajor, minMinor)
	}
	return path, found, nil
}
