// Package explore compares the API server in memory and the models of the environment with the real control plane.
//
// What lives here: random requests to both API servers, and random edits whose consequences in the control plane a
// model must allow. Who calls: make explore-test, and make test-all with more seeds.
package explore

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
)

// insideVariable is set in the process that `setpoint dev` has started: it may trust KUBECONFIG.
const insideVariable = "SETPOINT_EXPLORE_INSIDE"

var (
	seeds = flag.Int("seeds", 6, "how many random sequences to compare")
	first = flag.Uint64("first", 1, "the first seed")
)

// TestMain runs the tests as the command of `setpoint dev --cluster-only -- COMMAND`: this process becomes setpoint,
// which boots a control plane and starts this program again.
func TestMain(m *testing.M) {
	if os.Getenv(insideVariable) != "" {
		os.Exit(m.Run())
	}
	fmt.Fprintln(os.Stderr, "explore:", becomeSetpointDev())
	os.Exit(1)
}

// becomeSetpointDev returns only when it cannot.
func becomeSetpointDev() error {
	name := os.Getenv("SETPOINT")
	if name == "" {
		name = filepath.Join("..", "..", "bin", "setpoint")
	}
	binary, err := exec.LookPath(name)
	if err != nil {
		return fmt.Errorf("%w; build it with make build, or name another in SETPOINT", err)
	}
	if binary, err = filepath.Abs(binary); err != nil {
		return err
	}
	self, err := os.Executable()
	if err != nil {
		return err
	}
	command := append([]string{binary, "dev", "--cluster-only", "--", self}, os.Args[1:]...)
	return syscall.Exec(binary, command, append(os.Environ(), insideVariable+"=1"))
}

// eachSeed runs a comparison with each of the seeds, beside each other.
func eachSeed(t *testing.T, cluster *clusterServer, compare func(t *testing.T, cluster *clusterServer, seed uint64)) {
	for i := range *seeds {
		seed := *first + uint64(i)
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			t.Parallel()
			compare(t, cluster, seed)
		})
	}
}
