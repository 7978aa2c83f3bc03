// Package components holds the real programs of a Kubernetes control plane,
// each runnable as a child process of the binary that links this package: etcd,
// kube-apiserver, kube-controller-manager, kube-scheduler, kwok; and kubectl.
//
// They bring global state with them (flags, feature gates, loggers, metrics), so
// no two of them share a process, and Main must run before anything else in the
// program touches a flag. Only main packages and the TestMain of tests that boot
// a cluster import this package: it takes minutes to compile. How the programs
// are started, with which arguments, is decided by package controlplane.
package components

import (
	"fmt"
	"os"
	"path/filepath"
	"time"

	"github.com/setpoint-dev/setpoint/controlplane/internal/names"
	"github.com/setpoint-dev/setpoint/internal/memory"
)

// settled is when a component has finished starting, which takes much more memory than its
// work. Unused memory is returned to the system then.
const settled = 10 * time.Second

// programs by the name under which package controlplane starts them. Each takes
// its arguments without the program's name and returns an exit code.
func programs() map[string]func(args []string) int {
	return map[string]func(args []string) int{
		names.Etcd:              etcd,
		names.APIServer:         apiServer,
		names.ControllerManager: controllerManager,
		names.Scheduler:         scheduler,
		names.Kwok:              kwok,
	}
}

// Main runs the component or the kubectl that the command line asks for. It
// reports whether it did; if so the process should exit with the code.
//
// Call it first in main, and first in TestMain of tests that start clusters from
// their own binary:
//
//	func TestMain(m *testing.M) {
//		if code, handled := components.Main(os.Args); handled {
//			os.Exit(code)
//		}
//		os.Exit(m.Run())
//	}
func Main(args []string) (code int, handled bool) {
	switch {
	case invokedAsKubectl(args), len(args) >= 2 && args[1] == "kubectl":
		stampVersion()
		return kubectl(args), true
	case len(args) >= 3 && args[1] == names.Command:
		stampVersion()
		return component(args[2], args[3:]), true
	}
	return 0, false
}

// invokedAsKubectl is true for a link named kubectl to this binary.
func invokedAsKubectl(args []string) bool { return programName(args) == "kubectl" }

func programName(args []string) string {
	if len(args) == 0 {
		return ""
	}
	return filepath.Base(args[0])
}

func component(name string, args []string) int {
	program, known := programs()[name]
	if !known {
		fmt.Fprintf(os.Stderr, "no component %q in this binary\n", name)
		return 2
	}
	time.AfterFunc(settled, memory.Release)
	// The programs read their own name and arguments from here, too.
	os.Args = append([]string{name}, args...)
	return program(args)
}
