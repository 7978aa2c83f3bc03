package watch_test

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/internal/dev/watch"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// testFolder is a folder under watch and the bursts of changes in it.
type testFolder struct {
	dir    string
	bursts chan []string
	// awaited are the files that were awaited. The steps of one change may be in two bursts.
	awaited []string
}

func watchFolder(t *testing.T, folders ...string) *testFolder {
	t.Helper()
	w := &testFolder{dir: t.TempDir(), bursts: make(chan []string, 100)}
	for _, folder := range folders {
		w.mkdir(t, folder)
	}
	watcher := must.Get(watch.New([]string{w.dir}, nil)).In(t)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		watcher.Run(ctx, func(paths []string) { w.bursts <- paths })
	}()
	t.Cleanup(func() {
		cancel()
		<-ended
	})
	return w
}

func (w *testFolder) mkdir(t *testing.T, folder string) {
	t.Helper()
	must.Succeed(t, os.MkdirAll(filepath.Join(w.dir, folder), 0o700))
}

func (w *testFolder) write(t *testing.T, file string) {
	t.Helper()
	must.Succeed(t, os.WriteFile(filepath.Join(w.dir, file), []byte("x"), 0o600))
}

// await waits until all the files, and nothing else, were reported.
func (w *testFolder) await(t *testing.T, files ...string) {
	t.Helper()
	var want, got []string
	want = append(want, lists.Map(files, func(file string) string { return filepath.Join(w.dir, file) })...)
	slices.Sort(want)
	for !slices.Equal(want, got) {
		select {
		case burst := <-w.bursts:
			burst = slices.DeleteFunc(burst, func(file string) bool { return slices.Contains(w.awaited, file) && !slices.Contains(want, file) })
			got = slices.Compact(slices.Sorted(slices.Values(append(got, burst...))))
		case <-time.After(time.Minute):
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	w.awaited = append(w.awaited, want...)
}

func TestChangesAreReported(t *testing.T) {
	w := watchFolder(t, "sub/deep")
	w.write(t, "a.yaml")
	w.write(t, "sub/deep/b.py")
	w.await(t, "a.yaml", "sub/deep/b.py")
	must.Succeed(t, os.Rename(filepath.Join(w.dir, "a.yaml"), filepath.Join(w.dir, "c.yaml")))
	w.await(t, "a.yaml", "c.yaml")
	must.Succeed(t, os.Remove(filepath.Join(w.dir, "c.yaml")))
	w.await(t, "c.yaml")
}

func TestNewFoldersAreWatched(t *testing.T) {
	w := watchFolder(t)
	w.mkdir(t, "new")
	w.await(t, "new")
	w.write(t, "new/a.py")
	w.await(t, "new/a.py")
}

// Of folders with files that were named one by one, subfolders are not watched.
func TestFlatFolder(t *testing.T) {
	dir := t.TempDir()
	w := &testFolder{dir: dir, bursts: make(chan []string, 100)}
	w.mkdir(t, "sub")
	watcher := must.Get(watch.New([]string{filepath.Join(dir, "sub")}, []string{dir, filepath.Join(dir, "sub")})).In(t)
	go watcher.Run(t.Context(), func(paths []string) { w.bursts <- paths })
	w.mkdir(t, "new")
	w.write(t, "new/a.yaml")
	w.write(t, "b.yaml")
	w.write(t, "sub/c.yaml")
	w.await(t, "b.yaml", "sub/c.yaml")
}

func TestBuildOutputIsIgnored(t *testing.T) {
	w := watchFolder(t, "__pycache__", ".git", "node_modules/x")
	for _, file := range []string{
		".hidden", "a.py~", ".a.py.swp", "#a.py#", "a.pyc", "__pycache__/a.py", ".git/index", "node_modules/x/index.js",
	} {
		w.write(t, file)
	}
	must.Succeed(t, os.Chmod(w.dir, 0o500))
	must.Succeed(t, os.Chmod(w.dir, 0o700))
	w.write(t, "last")
	w.await(t, "last")
}

func TestMissingFolder(t *testing.T) {
	watcher := must.Get(watch.New([]string{filepath.Join(t.TempDir(), "gone")}, nil)).In(t)
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	watcher.Run(ctx, func([]string) {})
}
