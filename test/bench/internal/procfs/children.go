package procfs

import (
	"bytes"
	"fmt"
	"os"
	"strconv"
	"strings"
)

// Child is a process that another has started.
type Child struct {
	PID  int
	Args []string
}

// Children lists the processes that a process has started and that still run.
func Children(parent int) ([]Child, error) {
	entries, err := os.ReadDir("/proc")
	if err != nil {
		return nil, fmt.Errorf("list processes: %w", err)
	}
	var children []Child
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		// A process that has ended meanwhile has no files any more.
		stat, _ := os.ReadFile("/proc/" + entry.Name() + "/stat")
		if parentOf(stat) != parent {
			continue
		}
		args, _ := os.ReadFile("/proc/" + entry.Name() + "/cmdline")
		children = append(children, Child{PID: pid, Args: strings.Split(strings.TrimSuffix(string(args), "\x00"), "\x00")})
	}
	return children, nil
}

// parentOf is the process that started the one of a stat file, 0 if unknown.
func parentOf(stat []byte) int {
	const ppid = 1
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= ppid {
		return 0
	}
	parent, _ := strconv.Atoi(string(fields[ppid]))
	return parent
}
