//go:build linux

package sandbox

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// Furnish makes the inside look like a machine with its packages installed. The program must call it there once.
func (s Sandbox) Furnish() error {
	for _, m := range []struct {
		source, target, kind string
		flags                uintptr
		data                 string
	}{
		// Nothing mounted here is seen outside; what one process here mounts is seen by the others.
		{"", "/", "", syscall.MS_REC | syscall.MS_PRIVATE, ""},
		{"", "/", "", syscall.MS_REC | syscall.MS_SHARED, ""},
		{"proc", "/proc", "proc", 0, ""},
		{"usr", "/usr", "overlay", syscall.MS_RDONLY, "lowerdir=" + escape.Replace(filepath.Join(s.Usr, "usr")) + ":/usr"},
		{"run", "/run", "tmpfs", 0, "mode=755"},
	} {
		if err := syscall.Mount(m.source, m.target, m.kind, m.flags, m.data); err != nil {
			return fmt.Errorf("mount %s %s: %w", m.kind, m.target, err)
		}
	}
	if err := os.Mkdir(Home, 0o755); err != nil {
		return err
	}
	if err := syscall.Mount(s.Folder, Home, "", syscall.MS_BIND, ""); err != nil {
		return fmt.Errorf("mount %s: %w", Home, err)
	}
	if err := coverSettings(); err != nil {
		return err
	}
	return errors.Join(syscall.Sethostname([]byte(Hostname)), os.Setenv("TMPDIR", filepath.Join(Home, "tmp")))
}

// settings are those of the whole machine that a kubelet changes unless they are as it wants them.
var settings = map[string]string{
	"vm/overcommit_memory": "1", "vm/panic_on_oom": "0", "kernel/panic": "10", "kernel/panic_on_oops": "1",
	"kernel/keys/root_maxkeys": "1000000", "kernel/keys/root_maxbytes": "25000000",
}

// coverSettings shows the inside files of its own in their place.
func coverSettings() error {
	for name, value := range settings {
		file := filepath.Join("/run", strings.ReplaceAll(name, "/", "."))
		if err := os.WriteFile(file, []byte(value+"\n"), 0o644); err != nil {
			return err
		}
		if err := syscall.Mount(file, filepath.Join("/proc/sys", name), "", syscall.MS_BIND, ""); err != nil {
			return fmt.Errorf("cover %s: %w", name, err)
		}
	}
	return nil
}

// escape is what a path needs in the options of an overlay.
var escape = strings.NewReplacer(`\`, `\\`, ",", `\,`, ":", `\:`)
