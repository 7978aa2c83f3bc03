// Package must ends a test at an error that the test is not about, or when what it waits for does not come.
//
// Tests import it, and nothing else does.
package must

import (
	"testing"
	"time"
)

// Succeed ends the test with an error, if there is one.
func Succeed(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// Result is what a function returns.
type Result[T any] struct {
	value T
	err   error
}

// Get takes the results of a call: must.Get(os.ReadFile(path)).In(t).
func Get[T any](value T, err error) Result[T] { return Result[T]{value, err} }

// In returns the value, or ends the test with the error.
func (r Result[T]) In(t testing.TB) T {
	if r.err != nil { // Helper takes its time, and benchmarks call this.
		t.Helper()
		t.Fatal(r.err)
	}
	return r.value
}

// Eventually waits until a condition holds.
func Eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	for limit := time.After(time.Minute); !holds(); {
		select {
		case <-tick.C:
		case <-limit:
			t.Fatalf("never: %s", what)
		}
	}
}
