package machine

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
)

func checks() []func(folder string) error {
	return []func(string) error{root, debian, memory, disk, cgroups, overlay}
}

func root(string) error {
	if user := os.Geteuid(); user != 0 {
		return fmt.Errorf("root, and this is user %d: run it with sudo", user)
	}
	return nil
}

func debian(string) error {
	for _, program := range []string{"apt-get", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			return fmt.Errorf("Debian's packages: %w", err)
		}
	}
	release, err := os.ReadFile("/etc/os-release")
	if err != nil || !strings.Contains(string(release), "debian") {
		return errors.New("Debian's packages, and /etc/os-release does not name Debian")
	}
	return nil
}

func memory(string) error {
	file, err := os.Open("/proc/meminfo")
	if err != nil {
		return err
	}
	defer file.Close()
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var kilobytes uint64
		if _, err := fmt.Sscanf(lines.Text(), "MemAvailable: %d kB", &kilobytes); err == nil {
			return enough("memory", kilobytes<<10, Memory)
		}
	}
	return errors.New("a kernel that says in /proc/meminfo how much memory is available")
}

func disk(folder string) error {
	folder = existing(folder)
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return fmt.Errorf("the folder %s: %w", folder, err)
	}
	return enough("disk at "+folder, stat.Bavail*uint64(stat.Bsize), Disk)
}

// existing is the folder, or the nearest one above that exists.
func existing(folder string) string {
	for {
		if _, err := os.Stat(folder); err == nil || folder == filepath.Dir(folder) {
			return folder
		}
		folder = filepath.Dir(folder)
	}
}

func enough(what string, available, needed uint64) error {
	if available < needed {
		return fmt.Errorf("%.1f GB of %s, and %.1f GB are free", gigabytes(needed), what, gigabytes(available))
	}
	return nil
}

func gigabytes(bytes uint64) float64 { return float64(bytes) / (1 << 30) }

// cgroups are of version 1, a hierarchy for each controller, or of version 2.
func cgroups(string) error {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return nil
	}
	for _, controller := range []string{"cpu", "cpuset", "memory", "pids"} {
		if _, err := os.Stat(filepath.Join("/sys/fs/cgroup", controller, "cgroup.procs")); err != nil {
			return fmt.Errorf("the cgroup controller %s, and it is not mounted below /sys/fs/cgroup", controller)
		}
	}
	return nil
}

// overlay mounts an overlay on a thread in namespaces of its own, which end with it.
func overlay(folder string) error {
	failure := make(chan error)
	go func() {
		runtime.LockOSThread() // and never unlocked, so that the thread ends
		failure <- tryOverlay(folder)
	}()
	return <-failure
}

func tryOverlay(folder string) error {
	if err := syscall.Unshare(syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWUTS | syscall.CLONE_NEWPID); err != nil {
		return fmt.Errorf("namespaces: %w", err)
	}
	if err := syscall.Mount("", "/", "", syscall.MS_REC|syscall.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("mounts of its own: %w", err)
	}
	dir, err := os.MkdirTemp(existing(folder), ".overlay-")
	if err != nil {
		return fmt.Errorf("a folder: %w", err)
	}
	defer os.RemoveAll(dir)
	for _, name := range []string{"lower", "upper", "work", "all"} {
		if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
			return err
		}
	}
	at := func(name string) string { return filepath.Join(dir, name) }
	data := "lowerdir=" + at("lower") + ",upperdir=" + at("upper") + ",workdir=" + at("work")
	if err := syscall.Mount("overlay", at("all"), "overlay", 0, data); err != nil {
		return fmt.Errorf("overlayfs on %s: %w", existing(folder), err)
	}
	return syscall.Unmount(at("all"), 0)
}
