// Package watch tells which files changed below some folders, a burst of
// changes at a time: an editor writes one file in several steps, and a
// checkout writes many.
//
// What the files mean is not known here. The dev loop calls it.
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

// debounce is how long nothing must happen before a burst is over.
const debounce = 80 * time.Millisecond

// ignored are folders full of files that are made, not written.
var ignored = map[string]bool{"node_modules": true, "__pycache__": true, "vendor": true, "target": true}

// Watcher watches folders and all that is below them.
type Watcher struct {
	events *fsnotify.Watcher
}

// New watches the folders from now on. Hidden folders and those of build
// results are left out.
func New(dirs ...string) (*Watcher, error) {
	events, err := fsnotify.NewWatcher()
	if err != nil {
		return nil, fmt.Errorf("watch files: %w", err)
	}
	w := &Watcher{events: events}
	for _, dir := range dirs {
		if err := w.add(dir); err != nil {
			_ = events.Close()
			return nil, err
		}
	}
	return w, nil
}

// add watches a folder and those in it. One that vanished meanwhile is no
// error; one that cannot be watched for another reason is.
func (w *Watcher) add(dir string) error {
	return filepath.WalkDir(dir, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil && path == dir && !os.IsNotExist(err):
			return err
		case err != nil || !entry.IsDir():
			return nil //nolint:nilerr // What vanished meanwhile wants no watching.
		case path != dir && Ignored(path):
			return fs.SkipDir
		}
		if err := w.events.Add(path); err != nil && !os.IsNotExist(err) {
			return fmt.Errorf("watch %s: %w", path, err)
		}
		return nil
	})
}

// Ignored says whether changes of a file or folder of that name mean nothing:
// hidden ones, backups and swap files of editors, and what interpreters write.
func Ignored(path string) bool {
	name := filepath.Base(path)
	return ignored[name] || strings.HasPrefix(name, ".") || strings.HasPrefix(name, "#") ||
		strings.HasSuffix(name, "~") || slices.Contains([]string{".swp", ".swx", ".tmp", ".pyc"}, filepath.Ext(name))
}

// Run calls changed with the sorted paths of each burst until ctx is done.
func (w *Watcher) Run(ctx context.Context, changed func(paths []string)) {
	defer w.events.Close()
	burst := map[string]bool{}
	over := time.NewTimer(debounce)
	over.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-w.events.Errors: //nolint:errcheck // An overflow: what matters is written again by whoever waits for it.
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

// isRelevant also takes a new folder under watch.
func (w *Watcher) isRelevant(event fsnotify.Event) bool {
	if event.Op == fsnotify.Chmod || Ignored(event.Name) {
		return false
	}
	info, err := os.Stat(event.Name)
	if err != nil || !info.IsDir() {
		return true
	}
	if event.Has(fsnotify.Create) {
		_ = w.add(event.Name) // It may be gone again; that is one more event.
	}
	return event.Has(fsnotify.Create)
}
