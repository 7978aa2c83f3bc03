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

// controlFile is the pipe from the outside: a byte when the inside may begin, and its end when it must end.
const controlFile = 3

// first is the first process inside. It sets up the file systems, runs the program again, and waits for every process that has
// lost its parent.
func (s Sandbox) first() (code int, err error) {
	syscall.CloseOnExec(controlFile)
	control := os.NewFile(controlFile, "control")
	begin := make([]byte, 1)
	if _, err := control.Read(begin); err != nil {
		return 1, fmt.Errorf("wait for the outside: %w", err)
	}
	go func() {
		_, _ = control.Read(begin)
		os.Exit(1)
	}()
	if err := s.furnish(); err != nil {
		return 1, err
	}
	return runAgain()
}

// furnish makes the inside look like a machine with its packages installed.
func (s Sandbox) furnish() error {
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
	return syscall.Sethostname([]byte(Hostname))
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

func runAgain() (code int, err error) {
	program, err := os.Executable()
	if err != nil {
		return 1, err
	}
	for name, value := range map[string]string{stageVariable: stageInside, "TMPDIR": filepath.Join(Home, "tmp")} {
		if err := os.Setenv(name, value); err != nil {
			return 1, err
		}
	}
	process, err := os.StartProcess(program, os.Args, &os.ProcAttr{
		Env: os.Environ(), Files: []*os.File{os.Stdin, os.Stdout, os.Stderr},
	})
	if err != nil {
		return 1, err
	}
	for {
		var status syscall.WaitStatus
		switch ended, err := syscall.Wait4(-1, &status, 0, nil); {
		case errors.Is(err, syscall.EINTR):
		case err != nil:
			return 1, fmt.Errorf("wait for processes: %w", err)
		case ended == process.Pid && status.Signaled():
			return 1, fmt.Errorf("the tests were ended by a signal: %s", status.Signal())
		case ended == process.Pid:
			return status.ExitStatus(), nil
		}
	}
}
