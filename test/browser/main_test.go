// Package browser drives the UI as a user does: in a Chromium, against the real
// binary and a real control plane.
//
// What lives here: the harness (one Chromium, pages that look out for faults, a look
// at how accessible they are), and the tests, each a story of something a user does.
// What must not: anything that reaches behind the pages, the command line or the API.
// Who calls: make browser. README.md says how to write a test. It is a module of its
// own, so that nothing but it depends on what drives a browser.
package browser

import (
	"context"
	"flag"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// uiVariable tells a test process that it was started by `setpoint dev`, and where
// that serves the UI. KUBECONFIG alone proves nothing: it may name a cluster that
// somebody loves.
const uiVariable = "SETPOINT_BROWSER_UI"

// TestMain runs the tests as the command of `setpoint dev … -- COMMAND`: this process
// becomes setpoint, which boots one control plane with every example on it, serves
// the UI, and starts this program again.
func TestMain(m *testing.M) {
	flag.Parse()
	if os.Getenv(uiVariable) == "" {
		fmt.Fprintln(os.Stderr, "browser:", becomeSetpointDev())
		os.Exit(1)
	}
	os.Exit(runInside(m))
}

func runInside(m *testing.M) int {
	stop, err := startChromium(context.Background())
	if err != nil {
		fmt.Fprintln(os.Stderr, "browser:", err)
		return 1
	}
	defer stop()
	return m.Run()
}

// becomeSetpointDev returns only when it cannot.
func becomeSetpointDev() error {
	binary, err := findBinary()
	if err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	address, err := freeAddress()
	if err != nil {
		return err
	}
	projects, err := filepath.Glob("../../examples/*/setpoint.yaml")
	if err != nil {
		return err
	}
	command := []string{binary, "dev", "--ui-address", address}
	for _, project := range projects {
		command = append(command, filepath.Dir(project))
	}
	command = append(append(command, "--", self), os.Args[1:]...)
	return syscall.Exec(binary, command, append(os.Environ(), uiVariable+"=http://"+address))
}

func findBinary() (string, error) {
	name := os.Getenv("SETPOINT")
	if name == "" {
		name = filepath.Join("..", "..", "bin", "setpoint")
	}
	path, err := exec.LookPath(name)
	if err != nil {
		return "", fmt.Errorf("%w; build it with make build, or name another in SETPOINT", err)
	}
	return filepath.Abs(path)
}

// freeAddress is one on which nobody listens right now.
func freeAddress() (string, error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", err
	}
	return listener.Addr().String(), listener.Close()
}
