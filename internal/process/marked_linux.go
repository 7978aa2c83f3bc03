package process

import (
	"bytes"
	"fmt"
	"os"
	"slices"
	"strconv"
)

// killRounds bounds the rounds of killMarked: a process may start another one while it is found.
const killRounds = 10

// killMarked kills the processes with a variable in their environment.
func killMarked(variable string) {
	for range killRounds {
		found := marked(variable)
		for _, p := range found {
			_ = p.Kill()    // It may have exited.
			_, _ = p.Wait() // Only in a container, where orphans become children of this process.
		}
		if len(found) == 0 {
			return
		}
	}
}

// marked returns the processes with a variable in their environment. Those of other users cannot be read.
func marked(variable string) []*os.Process {
	entries, _ := os.ReadDir("/proc") // Without it, none are found.
	var found []*os.Process
	for _, entry := range entries {
		pid, err := strconv.Atoi(entry.Name())
		if err != nil || !hasVariable(pid, variable) {
			continue
		}
		p, err := os.FindProcess(pid)
		if err == nil && hasVariable(pid, variable) { // Before, the PID could still become that of another process.
			found = append(found, p)
		}
	}
	return found
}

func hasVariable(pid int, variable string) bool {
	environment, err := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid))
	return err == nil && slices.ContainsFunc(bytes.Split(environment, []byte{0}), func(one []byte) bool { return string(one) == variable })
}
