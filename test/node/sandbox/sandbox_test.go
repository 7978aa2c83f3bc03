//go:build linux

package sandbox_test

import (
	"bufio"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/must"
	"github.com/setpoint-dev/setpoint/test/node/sandbox"
)

// The program that runs in a sandbox is this one, with a folder in this variable. Inside it does what the other one says.
const (
	folderVariable = "SANDBOX_TEST_FOLDER"
	taskVariable   = "SANDBOX_TEST_TASK"
)

func TestMain(m *testing.M) {
	folder := os.Getenv(folderVariable)
	if folder == "" {
		os.Exit(m.Run())
	}
	s := sandbox.Sandbox{Folder: filepath.Join(folder, "run"), Usr: folder}
	run := s.Run
	if sandbox.Inside() {
		run = func() (int, error) { return task(s) }
	}
	code, err := run()
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}

// task mounts something, leaves a file, and has a process in a cgroup; then it ends with code 7, or waits.
func task(s sandbox.Sandbox) (int, error) {
	if err := s.Furnish(); err != nil {
		return 1, err
	}
	if err := syscall.Mount("test", "/mnt", "tmpfs", 0, ""); err != nil {
		return 1, err
	}
	if err := os.WriteFile(filepath.Join(sandbox.Home, "file"), nil, 0o600); err != nil {
		return 1, err
	}
	pods := filepath.Join(cgroups(), s.Cgroup(), "pods")
	if err := os.Mkdir(pods, 0o755); err != nil {
		return 1, err
	}
	sleep := exec.Command("sleep", "inf")
	if err := sleep.Start(); err != nil {
		return 1, err
	}
	if err := os.WriteFile(filepath.Join(pods, "cgroup.procs"), []byte(strconv.Itoa(sleep.Process.Pid)), 0o600); err != nil {
		return 1, err
	}
	if os.Getenv(taskVariable) == "end" {
		return 7, nil
	}
	fmt.Println("waits")
	return 0, sleep.Wait()
}

// cgroups is a hierarchy without parameters that a new cgroup needs; version 2 has one for all.
func cgroups() string {
	if _, err := os.Stat("/sys/fs/cgroup/cgroup.controllers"); err == nil {
		return "/sys/fs/cgroup"
	}
	return "/sys/fs/cgroup/pids"
}

func TestNothingIsLeft(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(outside, first *os.Process) error
	}{
		{"a run ends", nil},
		{"the outside is killed", func(outside, _ *os.Process) error { return outside.Kill() }},
		{"the first process inside is killed", func(_, first *os.Process) error { return first.Kill() }},
		{"the outside is interrupted", func(outside, _ *os.Process) error { return outside.Signal(os.Interrupt) }},
		{"the outside is killed, the inside hangs", func(outside, first *os.Process) error {
			if err := first.Signal(syscall.SIGSTOP); err != nil {
				return err
			}
			return outside.Kill()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			folder := t.TempDir()
			must.Succeed(t, os.Mkdir(filepath.Join(folder, "usr"), 0o755))
			before := footprint(t)
			if c.end != nil {
				disturb(t, folder, c.end)
			}
			run := program(folder, "end")
			if output, _ := run.CombinedOutput(); run.ProcessState.ExitCode() != 7 {
				t.Errorf("the next run: %s\n%s", run.ProcessState, output)
			}
			if after := footprint(t); after != before {
				t.Errorf("before:\n%s\nafter:\n%s", before, after)
			}
			if left := must.Get(filepath.Glob(filepath.Join(folder, "run", "*"))).In(t); len(left) > 0 {
				t.Errorf("left are %v", left)
			}
		})
	}
}

// disturb starts a run, and ends it somehow while it waits.
func disturb(t *testing.T, folder string, end func(outside, first *os.Process) error) {
	t.Helper()
	run := program(folder, "wait")
	run.Stderr = t.Output()
	output := must.Get(run.StdoutPipe()).In(t)
	must.Succeed(t, run.Start())
	if line, err := bufio.NewReader(output).ReadString('\n'); line != "waits\n" {
		t.Fatalf("the run says %q: %v", line, err)
	}
	child := must.Get(exec.Command("pgrep", "-P", strconv.Itoa(run.Process.Pid)).Output()).In(t)
	pid := must.Get(strconv.Atoi(strings.TrimSpace(string(child)))).In(t)
	must.Succeed(t, end(run.Process, must.Get(os.FindProcess(pid)).In(t)))
	// Its output stays open as long as one of its processes lives.
	if _, err := run.Process.Wait(); err != nil {
		t.Fatal(err)
	}
}

func program(folder, task string) *exec.Cmd {
	cmd := exec.Command("/proc/self/exe")
	cmd.Env = append(os.Environ(), folderVariable+"="+folder, taskVariable+"="+task)
	return cmd
}

// footprint is what a run could leave outside.
func footprint(t *testing.T) string {
	t.Helper()
	var text strings.Builder
	text.Write(must.Get(os.ReadFile("/proc/self/mounts")).In(t))
	for _, pattern := range []string{"/sys/class/net/*", "/sys/fs/cgroup/setpoint-node-*", "/sys/fs/cgroup/*/setpoint-node-*"} {
		fmt.Fprintln(&text, must.Get(filepath.Glob(pattern)).In(t))
	}
	return text.String()
}
