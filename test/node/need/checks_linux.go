package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
)

// memoryNeeded and diskNeeded must be free, in bytes.
const (
	memoryNeeded = 1500 << 20
	diskNeeded   = 3 << 30
)

var checks = []func(folder string) error{root, debian, memory, disk, cgroups, overlay}

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
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return err
	}
	var kilobytes uint64
	_, available, _ := strings.Cut(string(text), "MemAvailable:")
	if _, err := fmt.Sscan(available, &kilobytes); err != nil {
		return errors.New("a kernel that says in /proc/meminfo how much memory is available")
	}
	return enough("memory", kilobytes<<10, memoryNeeded)
}

func disk(folder string) error {
	var stat syscall.Statfs_t
	if err := syscall.Statfs(folder, &stat); err != nil {
		return fmt.Errorf("the folder %s: %w", folder, err)
	}
	return enough("disk at "+folder, stat.Bavail*uint64(stat.Bsize), diskNeeded)
}

func enough(what string, available, needed uint64) error {
	if available < needed {
		return fmt.Errorf("%.1f GB of %s, and %.1f GB are free", float64(needed)/(1<<30), what, float64(available)/(1<<30))
	}
	return nil
}

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

// overlay mounts one in namespaces that end with it.
func overlay(folder string) error {
	const try = `dir=$(mktemp -d -p "$0") && cd "$dir" && mkdir lower upper work all &&
		mount -t overlay -o lowerdir=lower,upperdir=upper,workdir=work overlay all && umount all; code=$?; rm -rf "$dir"; exit $code`
	namespaces := []string{"--mount", "--net", "--uts", "--ipc", "--pid", "--fork"}
	output, err := exec.Command("unshare", append(namespaces, "sh", "-c", try, folder)...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("namespaces and overlayfs on %s: %w: %s", folder, err, bytes.TrimSpace(output))
	}
	return nil
}
