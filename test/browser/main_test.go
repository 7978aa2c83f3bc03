// Package browser tests the dashboard as a user does: in Chromium, against the real binary
// and a real control plane.
//
// It contains the harness and one test per user story. Tests use only pages, the command
// line and the API. Run it with make browser; README.md explains how to write a test. It is
// a separate module because of its dependencies.
package browser

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// uiVariable is set by `setpoint dev` to the URL of the dashboard. KUBECONFIG is not enough,
// since it may name a real cluster.
const uiVariable = "SETPOINT_BROWSER_UI"

// tokenVariable is set to the token of a user who signs in, where no session has printed an address.
const tokenVariable = "SETPOINT_BROWSER_TOKEN"

// TestMain runs the tests as the command of `setpoint dev … -- COMMAND`: this process becomes
// setpoint, which boots one control plane with all examples and starts this program again.
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

// becomeSetpointDev returns only on error.
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
	command := []string{binary, "dev", "--dashboard-address", address}
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

// freeAddress returns an unused address. Its port is below those that programs get which listen on any, so none gets it
// before it is used.
func freeAddress() (address string, err error) {
	for range 100 {
		listener, taken := net.Listen("tcp", fmt.Sprintf("127.0.0.1:%d", 12000+rand.IntN(8000)))
		if taken == nil {
			return listener.Addr().String(), listener.Close()
		}
		err = taken
	}
	return "", err
}
