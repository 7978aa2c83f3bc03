// Command setpoint, the light one: what a developer types, for a cluster that is
// there already. The full one, with a control plane inside, is the command of
// the same name in the nested module controlplane.
package main

import (
	"os"

	"github.com/setpoint-dev/setpoint/internal/cli"
)

func main() {
	os.Exit(cli.Main(cli.Extras{}))
}
