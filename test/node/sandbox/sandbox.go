//go:build linux

// Package sandbox runs this program once more as the first process of mount, network, UTS, IPC and PID namespaces of its own. When
// that process ends, however it does, the kernel ends all others there, and what they have mounted, and their interfaces and
// iptables rules are no more. What remains are cgroups and files: see removals.
//
// What lives here: how the inside begins and how it ends. What must not: what runs inside. Who calls: package node.
package sandbox

import (
	"errors"
	"fmt"
	"hash/fnv"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"syscall"
)

// Home is where the inside finds Sandbox.Folder: a short path, as those of sockets are limited.
const Home = "/run/node"

// Hostname is that of the inside.
const Hostname = "node"

// Sandbox is where a run of this program keeps what it leaves. The zero value is not valid.
type Sandbox struct {
	// Folder is made anew by each run, and removed at its end. It is absolute.
	Folder string
	// Usr is laid over /usr inside.
	Usr string
}

// insideVariable is set in the sandbox.
const insideVariable = "SETPOINT_NODE_INSIDE"

// Inside says that this process runs in a sandbox, as its first one.
func Inside() bool { return os.Getenv(insideVariable) != "" }

// Run runs this program, with its arguments, in the sandbox, and returns its exit code.
func (s Sandbox) Run() (code int, err error) {
	lock, err := s.lock()
	if err != nil {
		return 1, err
	}
	defer lock.Close()
	if err := s.remove(); err != nil {
		return 1, fmt.Errorf("remove what a killed run left: %w", err)
	}
	code, err = s.runInside()
	return code, errors.Join(err, s.remove())
}

// Cgroup is the name, in every hierarchy, of the cgroup with all pods; each clone of the repository has its own.
func (s Sandbox) Cgroup() string {
	hash := fnv.New32a()
	_, _ = hash.Write([]byte(s.Folder))
	return fmt.Sprintf("setpoint-node-%08x", hash.Sum32())
}

// lock keeps others from this sandbox until this process ends.
func (s Sandbox) lock() (*os.File, error) {
	if err := os.MkdirAll(filepath.Dir(s.Folder), 0o755); err != nil {
		return nil, err
	}
	file, err := os.OpenFile(s.Folder+".lock", os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := syscall.Flock(int(file.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		return nil, fmt.Errorf("another run uses %s: %w", s.Folder, err)
	}
	return file, nil
}

// runInside runs the first process there. The kernel kills it when this one ends, however that does.
func (s Sandbox) runInside() (code int, err error) {
	if err := s.create(); err != nil {
		return 1, err
	}
	runtime.LockOSThread() // To the kernel, a parent is a thread.
	defer runtime.UnlockOSThread()
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Env = append(os.Environ(), insideVariable+"=yes")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Cloneflags: namespaces, Pdeathsig: syscall.SIGKILL}
	signals := make(chan os.Signal, 1)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM, syscall.SIGHUP)
	defer signal.Stop(signals)
	if err := cmd.Start(); err != nil {
		return 1, fmt.Errorf("start a process in namespaces: %w", err)
	}
	go func() {
		for range signals {
			_ = cmd.Process.Kill()
		}
	}()
	if err := cmd.Wait(); cmd.ProcessState.ExitCode() < 0 {
		return 1, fmt.Errorf("the first process in the namespaces: %w", err)
	}
	return cmd.ProcessState.ExitCode(), nil
}

const namespaces = syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWPID

// create makes what removals remove.
func (s Sandbox) create() error {
	mounted, err := cgroupMounts()
	if err != nil {
		return err
	}
	for _, hierarchy := range mounted {
		if err := os.Mkdir(filepath.Join(hierarchy, s.Cgroup()), 0o755); err != nil {
			return err
		}
	}
	return os.MkdirAll(filepath.Join(s.Folder, "tmp"), 0o755)
}
