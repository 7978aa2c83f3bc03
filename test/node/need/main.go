// Command need says what this machine lacks for the tests with a real node, and exits with 1. It changes nothing.
package main

import (
	"fmt"
	"os"

	"github.com/setpoint-dev/setpoint/test/node/machine"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: need FOLDER")
		os.Exit(2)
	}
	if err := machine.Check(os.Args[1]); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}
