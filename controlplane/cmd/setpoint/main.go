// Command setpoint, in full: the light one's commands, and a control plane and
// kubectl that come with it.
package main

import (
	"os"

	"github.com/setpoint-dev/setpoint/controlplane/components"
	"github.com/setpoint-dev/setpoint/internal/cli"
)

func main() {
	if len(os.Args) < 2 || os.Args[1] != "kubectl" { // It needs the session of the working directory first.
		// Before the rest, since the components have flags and global state of their own.
		if code, handled := components.Main(os.Args); handled {
			os.Exit(code)
		}
	}
	os.Exit(cli.Main(cli.Extras{Boot: boot, Kubectl: kubectl}))
}

// kubectl runs kubectl in this process.
func kubectl(args []string) int {
	code, _ := components.Main(append([]string{os.Args[0], "kubectl"}, args...))
	return code
}
