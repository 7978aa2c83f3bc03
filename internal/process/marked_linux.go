package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
	"time"
)

// killRounds bounds the rounds of killMarked: a process may start another one while it is found, and one that is
// executing a program has no environment for a moment.
const (
	killRounds = 200
	killPause  = 5 * time.Millisecond
)

// killMarked kills the processes with a variable in their environment.
func killMarked(variable string) {
	for range killRounds {
		found, unknown := marked(variable)
		for _, p := range found {
			_ = p.Kill()    // It may have exited.
			_, _ = p.Wait() // Only in a container, where orphans become children of this process.
		}
		if len(found) == 0 && !unknown {
			return
		}
		<-time.After(killPause) // What was killed takes a moment to exit.
	}
}

// marked returns the processes with a variable in their environment. Those of other users cannot be read. It
// reports whether there are processes whose environment is not known yet.
func marked(variable string) (found []*os.Process, unknown bool) {
	entries, _ := os.ReadDir("/proc") // Without it, none are found.
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil {
			continue
		}
		if !hasVariable(pid, variable) {
			unknown = unknown || executing(pid)
			continue
		}
		p, err := os.FindProcess(pid)
		if err == nil && hasVariable(pid, variable) { // Before, the PID could still become that of another process.
			found = append(found, p)
		}
	}
	return found, unknown
}

func hasVariable(pid int, variable string) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(one []byte) bool { return string(one) == variable })
}

// executing reports whether a process is between two programs: then it has neither arguments nor an environment.
func executing(pid int) bool {
	for _, file := range []string{"environ", "cmdline"} {
		if text, err := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file)); err != nil || len(text) > 0 {
			return false
		}
	}
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	return err == nil && isProgram(stat)
}

// isProgram reports whether a line of /proc/PID/stat is neither that of a thread of the kernel nor of a process that has
// exited.
func isProgram(stat []byte) bool {
	const state, flags, flagKernel = 0, 6, 0x00200000
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= flags || slices.Contains([]string{"Z", "X"}, string(fields[state])) {
		return false
	}
	value, err := strconv.ParseUint(string(fields[flags]), 10, 64)
	return err == nil && value&flagKernel == 0
}
