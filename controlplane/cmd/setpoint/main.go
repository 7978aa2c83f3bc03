// Command setpoint, in full: the light one's commands, and a control plane and
// kubectl that come with it.
package main

import (
	"os"

	"github.com/setpoint-dev/setpoint/controlplane/components"
	"github.com/setpoint-dev/setpoint/internal/cli"
)

func main() {
	if code := cli.BeforeKubectl(os.Args); code != 0 {
		os.Exit(code)
	}
	// Before the rest, since the components have flags and global state of their own.
	if code, handled := components.Main(os.Args); handled {
		os.Exit(code)
	}
	os.Exit(cli.Main(cli.Extras{Boot: boot, Kubectl: kubectl}))
}

// kubectl is for the calls that take a detour through the command line's own
// parser.
func kubectl(args []string) int {
	code, _ := components.Main(append([]string{os.Args[0], "kubectl"}, args...))
	return code
}
