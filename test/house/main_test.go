// Package house holds the tests of the repository as a whole: its layers and libraries, the sizes of its packages,
// files, types and functions, its links, and its list of faults with their tests. Who calls: make check.
package house

import (
	"fmt"
	"os"
	"testing"
)

// TestMain runs the tests in the root of the repository.
func TestMain(m *testing.M) {
	if err := os.Chdir("../.."); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(m.Run())
}
