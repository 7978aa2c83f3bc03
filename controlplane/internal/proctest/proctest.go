// Package proctest is for tests of this module that start real processes: it
// waits for conditions and tells whether a process lives. Only tests import it.
package proctest

import (
	"os/exec"
	"strconv"
	"strings"
	"testing"
	"time"
)

// Eventually polls until check succeeds, and fails the test with its last error
// if that takes longer than limit.
func Eventually(t testing.TB, limit time.Duration, check func() error) {
	t.Helper()
	deadline := time.After(limit)
	ticker := time.NewTicker(10 * time.Millisecond)
	defer ticker.Stop()
	for {
		err := check()
		if err == nil {
			return
		}
		select {
		case <-deadline:
			t.Fatalf("still not so after %v: %v", limit, err)
		case <-ticker.C:
		}
	}
}

// Alive reports whether a process is running. A zombie is not.
func Alive(pid int) bool {
	state, err := exec.Command("ps", "-o", "stat=", "-p", strconv.Itoa(pid)).Output()
	if err != nil {
		return false
	}
	text := strings.TrimSpace(string(state))
	return text != "" && !strings.HasPrefix(text, "Z")
}
