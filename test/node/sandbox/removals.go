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
	"syscall"
	"time"
)

// removals are all that a run leaves outside, in the order in which it is removed: at the end of the run, or by the next one if it
// was killed. With the first process go all others, their mounts, their interfaces and their rules.
var removals = []struct {
	what   string
	remove func(Sandbox) error
}{
	{"processes", Sandbox.endFirst},
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

// endFirst kills the first process of a run whose outside was killed, and waits until it is gone, and so all others there.
func (s Sandbox) endFirst() error {
	text, err := os.ReadFile(s.record())
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	var pid int
	var started string
	if _, err := fmt.Sscan(string(text), &pid, &started); err != nil {
		return nil // It was killed while it wrote this, and the first process has not begun.
	}
	return eventually(func() error {
		// Another process may have got its number.
		if now, err := startOf(pid); err != nil || now != started {
			return nil
		}
		if err := syscall.Kill(pid, syscall.SIGKILL); err != nil && !errors.Is(err, syscall.ESRCH) {
			return err
		}
		return fmt.Errorf("process %d does not end", pid)
	})
}

// startOf is when a process was started, in the kernel's own words.
func startOf(pid int) (string, error) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return "", err
	}
	// The name of the program, in parentheses, may have spaces.
	fields := strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
	const start = 19
	if len(fields) <= start {
		return "", fmt.Errorf("/proc/%d/stat has %d fields", pid, len(fields))
	}
	return fields[start], nil
}

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
