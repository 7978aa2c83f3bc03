package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// The folder of the artifacts is emptied, but only if it is one.
func TestFolderWithOtherFilesIsKept(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	notes := filepath.Join(dir, "notes.txt")
	succeed(t, os.WriteFile(notes, nil, 0o600))
	err := run(t.Context(), []string{"-root", "../..", "-install-only", "-o", dir})
	if err == nil || !strings.Contains(err.Error(), notes+" is not part of a release") {
		t.Error(err)
	}
	if _, err := os.Stat(notes); err != nil {
		t.Error(err)
	}
}
