//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// removals are all that a run leaves outside, in the order in which it is removed: at the end of the run, or by the next one if it
// was killed.
var removals = []struct {
	what   string
	remove func(Sandbox) error
}{
	{"cgroups", Sandbox.removeCgroups},
	{"files", Sandbox.removeFiles},
}

func (s Sandbox) remove() error {
	for _, r := range removals {
		if err := r.remove(s); err != nil {
			return fmt.Errorf("remove %s of %s: %w", r.what, s.Folder, err)
		}
	}
	return nil
}

// patience is how long the kernel may take to let go.
const patience = 10 * time.Second

func (s Sandbox) removeCgroups() error {
	mounted, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, hierarchy := range mounted {
		if err := eventually(func() error { return removeCgroup(filepath.Join(hierarchy, s.Cgroup())) }); err != nil {
			return err
		}
	}
	return nil
}

// cgroupMounts are the folders where hierarchies are mounted.
func cgroupMounts() ([]string, error) {
	table, err := os.ReadFile("/proc/self/mounts")
	if err != nil {
		return nil, err
	}
	var folders []string
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); len(fields) > 2 && (fields[2] == "cgroup" || fields[2] == "cgroup2") {
			folders = append(folders, fields[1])
		}
	}
	return folders, nil
}

// removeCgroup removes a cgroup and those below: no folder with files can be removed, but these.
func removeCgroup(folder string) error {
	var folders []string
	err := filepath.WalkDir(folder, func(path string, entry fs.DirEntry, err error) error {
		if err == nil && entry.IsDir() {
			folders = append(folders, path)
		}
		return err
	})
	for _, path := range slices.Backward(folders) {
		if err := os.Remove(path); err != nil {
			return err
		}
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}

func (s Sandbox) removeFiles() error {
	return eventually(func() error { return os.RemoveAll(s.Folder) })
}

// eventually tries until it succeeds, within limits.
func eventually(try func() error) error {
	deadline := time.After(patience)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for {
		err := try()
		if err == nil {
			return nil
		}
		select {
		case <-tick.C:
		case <-deadline:
			return err
		}
	}
}
