// Package procfs reads what a process has used from Linux's /proc: processor
// time and resident memory.
//
// Elsewhere than on Linux every reading is an error, which the report shows as
// an empty cell.
package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
	"time"
)

// tick is the unit of /proc/PID/stat: USER_HZ is 100 on every architecture
// Go runs on.
const tick = 10 * time.Millisecond

// Usage is what one process has used so far, and holds now.
type Usage struct {
	// CPU is user plus system time of all threads since the start.
	CPU time.Duration
	// RSS is resident memory now, Peak its highest so far, in bytes.
	RSS, Peak int64
}

// CPU is user plus system time of all threads of a process so far.
func CPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	return parseCPU(stat, own)
}

// ChildrenCPU is user plus system time of the processes that a process has started: those that run,
// and those that have ended.
func ChildrenCPU(pid int) (time.Duration, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0, fmt.Errorf("read processor time: %w", err)
	}
	all, err := parseCPU(stat, ended)
	if err != nil {
		return 0, err
	}
	running, err := Children(pid)
	for _, child := range running {
		used, _ := CPU(child.PID) // One that has ended meanwhile has no files any more.
		all += used
	}
	return all, err
}

// Read takes one reading of a process.
func Read(pid int) (Usage, error) {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("read processor time: %w", err)
	}
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return Usage{}, fmt.Errorf("read memory: %w", err)
	}
	return parse(stat, status)
}

func parse(stat, status []byte) (Usage, error) {
	cpu, err := parseCPU(stat, own)
	if err != nil {
		return Usage{}, fmt.Errorf("parse stat: %w", err)
	}
	rss, err := parseKiB(status, "VmRSS:")
	if err != nil {
		return Usage{}, fmt.Errorf("parse status: %w", err)
	}
	peak, err := parseKiB(status, "VmHWM:")
	if err != nil {
		return Usage{}, fmt.Errorf("parse status: %w", err)
	}
	return Usage{CPU: cpu, RSS: rss, Peak: peak}, nil
}

// Fields of user time, each followed by that of system time: of the process, and of its children
// that have ended. They count from the last parenthesis on, because the second field is the
// program's name and may hold anything.
const own, ended = 11, 13

func parseCPU(stat []byte, utime int) (time.Duration, error) {
	stime := utime + 1
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= stime {
		return 0, fmt.Errorf("%d fields after the name", len(fields))
	}
	user, err := strconv.ParseInt(string(fields[utime]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("user time: %w", err)
	}
	system, err := strconv.ParseInt(string(fields[stime]), 10, 64)
	if err != nil {
		return 0, fmt.Errorf("system time: %w", err)
	}
	return time.Duration(user+system) * tick, nil
}

func parseKiB(status []byte, key string) (int64, error) {
	for line := range strings.Lines(string(status)) {
		value, ok := strings.CutPrefix(line, key)
		if !ok {
			continue
		}
		kib, err := strconv.ParseInt(strings.TrimSuffix(strings.TrimSpace(value), " kB"), 10, 64)
		if err != nil {
			return 0, fmt.Errorf("%s %w", key, err)
		}
		return kib << 10, nil
	}
	return 0, fmt.Errorf("no %s", key)
}
