package scaffold

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// Write writes files into a folder, which it creates. If one of them exists, it writes none.
func Write(dir string, files map[string][]byte) error {
	return write(dir, files, func([]byte) bool { return false })
}

// Rewrite is Write, but replaces files that contain mark, which it generated before.
func Rewrite(dir string, files map[string][]byte, mark string) error {
	return write(dir, files, func(text []byte) bool { return bytes.Contains(text, []byte(mark)) })
}

func write(dir string, files map[string][]byte, mayReplace func([]byte) bool) error {
	if err := refuseExisting(dir, files, mayReplace); err != nil {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil { //nolint:gosec // Source code, readable as such.
			return err
		}
		if err := os.WriteFile(path, files[name], modeOf(name)); err != nil {
			return err
		}
	}
	return nil
}

// RefuseExisting returns the error of Write if one of the files exists.
func RefuseExisting(dir string, files map[string][]byte) error {
	return refuseExisting(dir, files, func([]byte) bool { return false })
}

func refuseExisting(dir string, files map[string][]byte, mayReplace func([]byte) bool) error {
	var existing []string
	for _, name := range slices.Sorted(maps.Keys(files)) {
		path := filepath.Join(dir, name)
		text, err := os.ReadFile(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
		case err != nil:
			return err
		case !mayReplace(text):
			existing = append(existing, path)
		}
	}
	if len(existing) > 0 {
		return fmt.Errorf("%s: %w; nothing was written", strings.Join(existing, ", "), fs.ErrExist)
	}
	return nil
}

// modeOf returns the mode of a file. Scripts can be run.
func modeOf(name string) fs.FileMode {
	if filepath.Ext(name) == ".sh" {
		return 0o755
	}
	return 0o644
}
