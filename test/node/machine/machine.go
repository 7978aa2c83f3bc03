// Package machine says what a machine lacks for a real node.
//
// What lives here: what must be there before anything is changed. What must not: whatever changes the machine.
package machine

import "fmt"

// Needed are the free memory and the free disk of the tests, in bytes.
const (
	Memory = 1500 << 20
	Disk   = 3 << 30
)

// Check says in one sentence what is missing. The folder is the one that will hold the node's files; it may not exist yet.
func Check(folder string) error {
	for _, check := range checks() {
		if err := check(folder); err != nil {
			return fmt.Errorf("a real node needs %w", err)
		}
	}
	return nil
}
