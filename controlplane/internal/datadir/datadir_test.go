package datadir_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/controlplane/internal/datadir"
	"github.com/setpoint-dev/setpoint/internal/must"
)

func open(t *testing.T, path string) *datadir.Dir {
	t.Helper()
	return must.Get(datadir.Open(path)).In(t)
}

func closeDir(t *testing.T, dir *datadir.Dir) {
	t.Helper()
	must.Succeed(t, dir.Close())
}

func TestPersistentDirectory(t *testing.T) {
	path := filepath.Join(t.TempDir(), "a", "b")
	dir := open(t, path)
	must.Succeed(t, dir.RememberPorts(map[string]int{"x": 7}))
	closeDir(t, dir)

	dir = open(t, path)
	defer closeDir(t, dir)
	if dir.Temporary() || dir.Port("x") != 7 || dir.Port("y") != 0 {
		t.Errorf("temporary %v, ports %d and %d", dir.Temporary(), dir.Port("x"), dir.Port("y"))
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

func TestTemporaryDirectoryIsRemoved(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	dir := open(t, "")
	path := dir.Path()
	closeDir(t, dir)
	if _, err := os.Stat(path); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("stat: %v", err)
	}
}

func TestAbandonedTemporaryDirectoriesAreSwept(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	abandoned, held := open(t, ""), open(t, "")
	abandoned.Unlock()
	closeDir(t, open(t, "")) // a third one finds the first
	if _, err := os.Stat(abandoned.Path()); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("abandoned directory: %v", err)
	}
	if _, err := os.Stat(held.Path()); err != nil {
		t.Errorf("directory in use: %v", err)
	}
	closeDir(t, held)
}

func TestDirectoryInUseNamesTheHolder(t *testing.T) {
	path := t.TempDir()
	dir := open(t, path)
	defer closeDir(t, dir)
	_, err := datadir.Open(path)
	var inUse *datadir.InUseError
	if !errors.As(err, &inUse) {
		t.Fatalf("error is %v", err)
	}
	for _, want := range []string{path, fmt.Sprintf("pid %d", os.Getpid()), os.Args[0]} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("error lacks %q: %v", want, err)
		}
	}
}

func TestForeignAndDamagedDirectories(t *testing.T) {
	for name, test := range map[string]struct{ file, content, want string }{
		"foreign":       {"thesis.tex", "", "is not empty"},
		"damaged":       {"cluster.json", "{", "is damaged"},
		"from tomorrow": {"cluster.json", `{"layout": 99}`, "layout 99"},
	} {
		t.Run(name, func(t *testing.T) {
			path := t.TempDir()
			must.Succeed(t, os.WriteFile(filepath.Join(path, test.file), []byte(test.content), 0o600))
			_, err := datadir.Open(path)
			if err == nil || !strings.Contains(err.Error(), test.want) || !strings.Contains(err.Error(), path) {
				t.Fatalf("error is %v, want %q and the path in it", err, test.want)
			}
		})
	}
}

func TestWriteFileIsPrivate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "f")
	must.Succeed(t, os.WriteFile(path, []byte("old"), 0o644))
	must.Succeed(t, datadir.WriteFile(path, []byte("new")))
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
	if text, _ := os.ReadFile(path); string(text) != "new" {
		t.Errorf("content %q", text)
	}
}
