package program_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/call"
)

// A process that a hook starts in a session of its own ends with the hook, also if its parent has ended before.
func TestDetachedProcesses(t *testing.T) {
	const detach = "(setsid sh -c 'echo $$ >new && mv new pid; exec sleep 1000' >/dev/null 2>&1 &); until [ -e pid ]; do sleep 0.01; done; "
	for name, script := range map[string]string{"killed": detach + "sleep 1000", "failed": detach + "exit 3"} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			writeProgram(t, filepath.Join(dir, "hook"), script)
			transport := open(t, dir, time.Minute, "./hook")
			ctx, cancel := context.WithCancel(t.Context())
			pid := make(chan int)
			go func() {
				pid <- awaitPID(ctx, filepath.Join(dir, "pid"))
				cancel() // The one that fails has failed, or is killed like the other.
			}()
			started := make(chan error, 1)
			go func() {
				_, err := call.New(call.Config{Transport: transport}).Call(ctx, &hook.Request{Parent: []byte(`{}`)})
				started <- err
			}()
			detached := <-pid
			if err := <-started; err == nil {
				t.Error("no error")
			}
			transport.Close()
			if !awaitExit(detached) {
				_ = syscall.Kill(detached, syscall.SIGKILL)
				t.Error("it still runs")
			}
		})
	}
}

// awaitExit waits for a process that may have got its signal, and not exited yet.
func awaitExit(pid int) bool {
	for deadline := time.Now().Add(30 * time.Second); time.Now().Before(deadline); <-time.After(10 * time.Millisecond) {
		if environment, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); len(environment) == 0 {
			return true
		}
	}
	return false
}

func awaitPID(ctx context.Context, file string) int {
	for ctx.Err() == nil {
		if text, err := os.ReadFile(file); err == nil {
			pid, _ := strconv.Atoi(strings.TrimSpace(string(text)))
			return pid
		}
		<-time.After(10 * time.Millisecond)
	}
	return 0
}
