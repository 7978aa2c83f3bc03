// Package watch reports changed files below folders in bursts: editors write a file in
// several steps, and checkouts write many files.
//
// It does not interpret the files.
package watch

import (
	"context"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fsnotify/fsnotify"
)

// debounce is the quiet time that ends a burst.
const debounce = 80 * time.Millisecond

// ignored are folders of generated files.
var ignored = map[string]bool{"node_modules": true, "__pycache__": true, "vendor": true, "target": true}

// Watcher watches folders recursively.
type Watcher struct {
	events *fsnotify.Watcher
	// flat are folders that are watched without their subfolders.
	flat map[string]bool
}

// New starts watching the folders, except hidden ones and build results. Of those in flat it
// watches the files directly in them.
func New(dirs, flat []string) (*Watcher, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &Watcher{events: events, flat: map[string]bool{}}
	for _, dir := range dirs {
		if err := w.add(dir); err != nil {
			_ = events.Close()
			return nil, err
		}
	}
	watched := events.WatchList()
	for _, dir := range slices.DeleteFunc(slices.Clone(flat), func(dir string) bool { return slices.Contains(watched, dir) }) {
		w.flat[dir] = true
		if err := events.Add(dir); err != nil {
			_ = events.Close()
			return nil, fmt.Errorf("watch %s: %w", dir, err)
		}
	}
	return w, nil
}

// add watches a folder and its subfolders, ignoring those that vanish meanwhile.
func (w *Watcher) add(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path == dir && !os.IsNotExist(err):
			return err
		case err != nil || !entry.IsDir():
			return nil //nolint:nilerr // It vanished meanwhile.
		case path != dir && Ignored(path):
			return fs.SkipDir
		}
		if err := w.events.Add(path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		return nil
	})
}

// Ignored reports whether changes of a file or folder with that name are ignored: hidden
// files, backups and swap files of editors, and caches of interpreters.
func Ignored(path string) bool {
	name := filepath.Base(path)
	return ignored[name] || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") ||
		strings.HasSuffix(name, "~") || slices.Contains([]string{".swp", ".swx", ".tmp", ".pyc"}, filepath.Ext(name))
}

// Run calls changed with the sorted paths of each burst until ctx ends.
func (w *Watcher) Run(ctx context.Context, changed func(paths []string)) {
	defer w.events.Close()
	burst := map[string]bool{}
	over := time.NewTimer(debounce)
	over.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.events.Errors: //nolint:errcheck // After an overflow, the next change is seen.
		case event := <-w.events.Events:
			if w.isRelevant(event) {
				burst[event.Name] = true
				over.Reset(debounce)
			}
		case <-over.C:
			changed(slices.Sorted(maps.Keys(burst)))
			clear(burst)
		}
	}
}

// isRelevant also starts watching new folders.
func (w *Watcher) isRelevant(event fsnotify.Event) bool {
	if event.Op == fsnotify.Chmod || Ignored(event.Name) {
		return false
	}
	info, err := os.Stat(event.Name)
	if err != nil || !info.IsDir() {
		return true
	}
	if w.flat[filepath.Dir(event.Name)] {
		return false
	}
	if event.Has(fsnotify.Create) {
		_ = w.add(event.Name) // If it is gone again, that is another event.
	}
	return event.Has(fsnotify.Create)
}
