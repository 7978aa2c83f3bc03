package operator

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// The oldest supported version of Python.
const minMajor, minMinor = 3, 9

// findInterpreter returns the path of the interpreter: the one of the flag, else that of the
// virtual environment, else python3.
func findInterpreter(ctx context.Context, flag, virtualEnv string) (string, error) {
	name := flag
	switch {
	case flag != "":
	case virtualEnv != "":
		name = filepath.Join(virtualEnv, "bin", "python3")
	default:
		name = "python3"
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", missingInterpreter(flag, virtualEnv, err)
	}
	return path, checkVersion(ctx, path)
}

func missingInterpreter(flag, virtualEnv string, err error) error {
	const want = "Python %d.%d or newer"
	switch {
	case flag != "":
		return fmt.Errorf("--python-interpreter: %w", err)
	case virtualEnv != "":
		return fmt.Errorf("$VIRTUAL_ENV is %s: %w; create it again, or use --python-interpreter", virtualEnv, err)
	}
	return fmt.Errorf("find python3: %w; install "+want+", or use --python-interpreter PATH", err, minMajor, minMinor)
}

// checkVersion runs the interpreter. The expression is valid in every version of Python.
func checkVersion(ctx context.Context, path string) error {
	//nolint:gosec // The user chooses the interpreter.
	command := exec.CommandContext(ctx, path, "-c", `import sys; print("Python %d.%d.%d" % sys.version_info[:3])`)
	command.Env = append(os.Environ(), "PYTHONSTARTUP=")
	var stderr bytes.Buffer
	command.Stderr = &stderr
	output, err := command.Output()
	if err != nil {
		detail := strings.TrimSpace(stderr.String())
		return fmt.Errorf("%s is no Python interpreter: %w", path, errors.Join(err, textError(detail)))
	}
	var major, minor, micro int
	found := strings.TrimSpace(string(output))
	if _, err := fmt.Sscanf(found, "Python %d.%d.%d", &major, &minor, &micro); err != nil {
		return fmt.Errorf("%s is no Python interpreter: it printed %.80q", path, found)
	}
	if major < minMajor || major == minMajor && minor < minMinor {
		return fmt.Errorf("%s is %s, and operators need Python %d.%d or newer: use --python-interpreter PATH",
			path, found, minMajor, minMinor)
	}
	return nil
}

// textError returns an error with the text; nil if there is none.
func textError(text string) error {
	if text == "" {
		return nil
	}
	return errors.New(text)
}
