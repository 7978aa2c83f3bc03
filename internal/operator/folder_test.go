package operator

import (
	"github.com/setpoint-dev/setpoint/internal/must"
	"os"
	"path/filepath"
	"testing"
)

func TestStaleFoldersAreRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	held, remove, err := newFolder()
	must.Succeed(t, err)
	stale := filepath.Join(os.TempDir(), folderPrefix+"killed")
	starting := filepath.Join(os.TempDir(), folderPrefix+"starting")
	for _, dir := range []string{stale, starting} {
		must.Succeed(t, os.Mkdir(dir, 0o700))
	}
	must.Succeed(t, os.WriteFile(filepath.Join(stale, lock), nil, 0o600))
	_, removeNext, err := newFolder()
	must.Succeed(t, err)
	exists := func(dir string) bool { _, err := os.Stat(dir); return err == nil }
	if exists(stale) || !exists(starting) || !exists(string(held)) {
		t.Errorf("stale %t, starting %t, held %t", exists(stale), exists(starting), exists(string(held)))
	}
	remove()
	removeNext()
	if left, _ := filepath.Glob(filepath.Join(os.TempDir(), "*")); len(left) != 1 {
		t.Errorf("left: %q", left)
	}
}
