package dev_test

import (
	"context"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dev"
	"github.com/setpoint-dev/setpoint/internal/must"
)

// Fault D1: programs are compiled before anything boots, with progress, and without a
// limit of time.
func TestProgramsAreCompiledBeforeBoot(t *testing.T) {
	ownCache(t)
	s := newSession(t, `
-- p/setpoint.yaml --
processes:
- name: operator
  command: [go, run, ., hello]
  env: {CGO_ENABLED: "0", GOWORK: "off"}
-- p/go.mod --
module example.com/operator
go 1.22
-- p/main.go --
package main

import "os"

func main() {
	os.Stdout.WriteString(os.Args[1] + " from the operator\n")
	select {}
}
`)
	boot := s.options.Boot
	s.options.Boot = func(ctx context.Context, o dev.BootOptions) (dev.Cluster, error) {
		s.terminal.await(t, "✓ compile operator")
		return boot(ctx, o)
	}
	ended := s.start(t)
	s.terminal.await(t, "operator | hello from the operator\n")
	s.terminal.await(t, "process      operator: go run . hello\n")
	s.write(t, "p/main.go", "package main\n\nfunc main() { undefined() }\n")
	s.terminal.await(t, "operator | ./main.go:3:15: undefined: undefined\n")
	s.terminal.await(t, "it is compiled again when one of its files changes")
	s.write(t, "p/main.go", "package main\n\nfunc main() { println(\"mended\"); select {} }\n")
	s.terminal.await(t, "operator | mended\n")
	s.terminal.await(t, "main.go changed: restarted operator")
	s.stop(t, syscall.SIGTERM, ended)
}

// Fault D1: a command that needs a program ends at once if that does not compile; nothing
// is booted for it.
func TestCommandNeedsCompiledPrograms(t *testing.T) {
	ownCache(t)
	s := newSession(t, `
-- p/setpoint.yaml --
processes: [{name: operator, build: [sh, -c, "echo no such thing >&2; exit 2"], command: ["{binary}"]}]
`)
	s.options.Command = []string{"true"}
	s.options.Boot = func(context.Context, dev.BootOptions) (dev.Cluster, error) {
		t.Error("booted")
		return s.cluster, nil
	}
	got := <-s.start(t)
	if got.code != 1 || got.err == nil || !strings.Contains(got.err.Error(), "process operator does not compile: ") {
		t.Errorf("%+v", got)
	}
	s.terminal.await(t, "operator | no such thing\n")
}

// ownCache is a new folder for what sessions compile; the go command keeps its own.
func ownCache(t *testing.T) {
	t.Helper()
	cache := must.Get(exec.Command("go", "env", "GOCACHE").Output()).In(t)
	t.Setenv("GOCACHE", strings.TrimSpace(string(cache)))
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
}

// Fault D1: what is slow is not an error, and a command waits for it.
func TestSlowProcessIsNotAnError(t *testing.T) {
	t.Parallel()
	listener := listen(t)
	address := listener.Addr().(*net.TCPAddr)
	listener.Close()
	s := newSession(t, `
-- p/setpoint.yaml --
processes: [{name: slow, command: [sh, -c, "sleep 1000; : {port}"], service: hook.web}]
`)
	s.options.FreePort = func() (int, error) { return address.Port, nil }
	s.options.Command = []string{"sh", "-c", "exit 4"}
	ended := s.start(t)
	s.terminal.await(t, "! process slow is running, but nothing listens on port")
	late := must.Get(new(net.ListenConfig).Listen(t.Context(), "tcp", address.String())).In(t)
	defer late.Close()
	// Fault G7: the engine knows of it, and that it is over.
	if got := <-s.manager.down; !strings.HasPrefix(got, "hook.web: process slow (service hook.web): running, but nothing listens on port") {
		t.Error(got)
	}
	if got := <-s.manager.restarted; got != "hook.web" {
		t.Error(got)
	}
	if got := <-ended; got.code != 4 || got.err != nil {
		t.Errorf("%+v", got)
	}
	if text := s.terminal.all(); strings.Contains(text, "✗") {
		t.Errorf("an error was shown:\n%s", text)
	}
}

// Fault D4: "Ready" is said only if everything is.
func TestUnreadyProcessIsNamed(t *testing.T) {
	s := newSession(t, `
-- p/setpoint.yaml --
apply: [bad.yaml]
processes: [{command: [sh, -c, "echo address in use; exit 3; {port}"], name: broken, service: hook.web}]
-- p/bad.yaml --
kind: [
`)
	ended := s.start(t)
	s.terminal.await(t, "Ctrl-C stops everything")
	s.terminal.await(t, "not everything is ready:\n  process broken (sh -c echo address in use;")
	s.terminal.await(t, "exited with code 3")
	s.terminal.await(t, "are not all applied")
	if text := s.terminal.all(); strings.Contains(text, "Ready after") {
		t.Errorf("ready was said:\n%s", text)
	}
	s.stop(t, syscall.SIGTERM, ended)
}

// Fault D2: what processes write does not stand between the lines of a command, unless a
// process ends by itself.
func TestProcessLogs(t *testing.T) {
	s := newSession(t, strings.Replace(hook, "exec sleep 1000", "[ -e once ] || { touch once; exit 7; }; exec sleep 1000", 1))
	s.options.ProcessLogs = filepath.Join(s.dir, "logs")
	ended := s.start(t)
	s.terminal.await(t, "✗ process worker exited with code 7")
	if shown, _, _ := strings.Cut(s.terminal.all(), "✗ process worker exited"); !strings.Contains(shown, "worker | hook one\n") {
		t.Errorf("what it wrote is not shown before its exit:\n%s", shown)
	}
	s.terminal.await(t, "Ctrl-C stops everything")
	log := filepath.Join(s.dir, "logs", "worker.log")
	for text := ""; text != "hook one\nhook one\n"; { // It is started again.
		data, err := os.ReadFile(log)
		if text = string(data); err != nil || len(text) > 18 {
			t.Fatalf("%q, %v", text, err)
		}
	}
	s.stop(t, syscall.SIGTERM, ended)
	if text := s.terminal.all(); strings.Count(text, "hook one") != 1 {
		t.Errorf("it was shown more often than at its end:\n%s", text)
	}
}
