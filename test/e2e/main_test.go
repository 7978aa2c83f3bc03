// Package e2e drives the real binary against a real control plane, by scripts
// that a user could type.
//
// What lives here: the harness (commands for scripts, a scripted hook server)
// and testdata/scripts, one file a story. What must not: anything that reaches
// behind the command line or the API, but for an upgrade, whose former state is restored
// in etcd. kubectl is the client; what scripts repeat is its code in this process.
// Who calls: make e2e. README.md says how to write a script.
package e2e

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"

	"k8s.io/kubectl/pkg/cmd/util"
)

// insideVariable is set in test processes that `setpoint dev` has started: they may
// trust KUBECONFIG and SETPOINT. KUBECONFIG alone proves nothing: it may name a
// production cluster.
const insideVariable = "SETPOINT_E2E_INSIDE"

// TestMain runs the tests as the command of `setpoint dev … -- COMMAND`, as a
// user's own tests would be run: this process becomes setpoint, which boots one
// control plane with every example on it and starts this program again.
//
// Scripts know the same program as operator: see operate.
func TestMain(m *testing.M) {
	if filepath.Base(os.Args[0]) == operatorName {
		fmt.Fprintln(os.Stderr, "operator:", runOperator())
		os.Exit(1)
	}
	if os.Getenv(insideVariable) != "" {
		os.Exit(runInside(m))
	}
	fmt.Fprintln(os.Stderr, "e2e:", becomeSetpointDev())
	os.Exit(1)
}

func runInside(m *testing.M) int {
	tools, err := os.MkdirTemp("", "setpoint-e2e-tools-")
	if err != nil {
		fmt.Fprintln(os.Stderr, "e2e:", err)
		return 1
	}
	defer os.RemoveAll(tools)
	if err := putOnPath(tools, os.Getenv("SETPOINT")); err != nil {
		fmt.Fprintln(os.Stderr, "e2e: put setpoint and kubectl on the path:", err)
		return 1
	}
	util.BehaviorOnFatal(func(message string, _ int) { panic(fatal{message}) })
	return m.Run()
}

// putOnPath makes setpoint, kubectl with the plugin, and operator commands of these names, for
// scripts and for whatever they run.
func putOnPath(folder, binary string) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	completion, err := filepath.Abs("../../tools/release/kubectl_complete-setpoint")
	if err != nil {
		return err
	}
	for name, program := range map[string]string{
		"setpoint": binary, "kubectl-setpoint": binary, "kubectl_complete-setpoint": completion, operatorName: self,
	} {
		if err := os.Symlink(program, filepath.Join(folder, name)); err != nil {
			return err
		}
	}
	// A fifth of the time of a short command is garbage collection of what packages initialize.
	kubectl := "#!/bin/sh\nGOGC=800 exec setpoint kubectl \"$@\"\n"
	if err := os.WriteFile(filepath.Join(folder, "kubectl"), []byte(kubectl), 0o755); err != nil {
		return err
	}
	return os.Setenv("PATH", folder+string(os.PathListSeparator)+os.Getenv("PATH"))
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
	projects, err := filepath.Glob("../../examples/*/setpoint.yaml")
	if err != nil {
		return err
	}
	command := []string{binary, "dev"}
	for _, project := range projects {
		command = append(command, filepath.Dir(project))
	}
	command = append(append(command, "--", self), os.Args[1:]...)
	return syscall.Exec(binary, command, append(os.Environ(), insideVariable+"=1"))
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
