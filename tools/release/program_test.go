package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestOperatorImage makes the image of an example and runs it as a pod would.
func TestOperatorImage(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "dist")
	if err := run(t.Context(), []string{"-root", "../..", "-image", "./examples/exchangerate", "-o", dir, "-version", "1.2.3"}); err != nil {
		t.Fatal(err)
	}
	root, config := unpackImage(t, filepath.Join(dir, "image"))
	if got := strings.Join(append(config.Entrypoint, config.Cmd...), " "); got != "/exchangerate" {
		t.Errorf("the image runs %s", got)
	}
	if out := runInside(t, root, config, "rbac", "--namespace", "prod"); !strings.Contains(out, "kind: ServiceAccount\nmetadata:\n  name: exchangerate\n  namespace: prod") {
		t.Errorf("exchangerate rbac prints %s", out)
	}
}

func TestImageNeedsAProgram(t *testing.T) {
	t.Parallel()
	for reason, args := range map[string][]string{
		"-image: ./hook is not one package main":                           {"-image", "./hook"},
		"-image: ./examples/... is not one package main":                   {"-image", "./examples/..."},
		"directory not found":                                              {"-image", "./nowhere"},
		"-image: images are for Linux, and -platforms names no Linux plat": {"-image", "./cmd/setpoint", "-platforms", "darwin/arm64"},
		`unknown argument "./cmd/setpoint"`:                                {"./cmd/setpoint"},
	} {
		err := run(t.Context(), append([]string{"-root", "../..", "-o", filepath.Join(t.TempDir(), "dist")}, args...))
		if err == nil || !strings.Contains(err.Error(), reason) {
			t.Errorf("%s: %v, want %s", args, err, reason)
		}
	}
}

// The folder of the artifacts is emptied, but only if it is one.
func TestFolderWithOtherFilesIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes.txt")
	if err := os.WriteFile(notes, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	err := run(t.Context(), []string{"-root", "../..", "-install-only", "-o", dir})
	if err == nil || !strings.Contains(err.Error(), notes+" is not part of a release") {
		t.Error(err)
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}
