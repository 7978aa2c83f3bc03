package child

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/failure"
)

// Call is a call's limits.
type Call struct {
	// Object is what the call is about, for log lines.
	Object []byte
	// Print gets the lines that are logged until the next call of the child begins; nil for none.
	Print func(line string)
	// Timeout is how long the exchange may take, and how long it may wait for a child before; at least
	// 10 s, since children have to start.
	Timeout time.Duration
	// MaxBytes limits what the child writes.
	MaxBytes int64
}

// leastWait is how long a call waits at least.
const leastWait = 10 * time.Second

func (c *Call) wait() time.Duration { return max(c.Timeout, leastWait) }

// Longest is how long a call takes at most.
func (c *Call) Longest() time.Duration { return c.wait() + c.Timeout }

var errClosed = errors.New("the hook is no longer in use")

// StartError means that a child could not be started.
type StartError struct{ Err error }

func (e *StartError) Error() string { return e.Err.Error() }
func (e *StartError) Unwrap() error { return e.Err }

// TimeoutError means that a child was killed because a call exceeded its time limit.
type TimeoutError struct{ After time.Duration }

func (e *TimeoutError) Error() string { return fmt.Sprintf("did not return within %s", e.After) }

// WaitError means that no child was free, or could be started, in time.
type WaitError struct{ After time.Duration }

func (e *WaitError) Error() string { return fmt.Sprintf("waited for %s", e.After) }

// SizeError means that a child was killed because it wrote more than a call may.
type SizeError struct{}

func (*SizeError) Error() string { return "wrote too many bytes" }

// ExitError means that a child exited in a call.
type ExitError struct {
	// Err is how: "exited with code 1", "killed by signal 9 (killed)".
	Err error
	// First and Last are the first and the last lines of the standard error.
	First, Last []string
}

func (e *ExitError) Error() string {
	if len(e.Last) == 0 {
		return e.Err.Error()
	}
	return e.Err.Error() + ": " + strings.Join(e.Last, "; ")
}
func (e *ExitError) Unwrap() error { return e.Err }

// FaultKind classifies the error of a call for user interfaces.
func FaultKind(err error) failure.FaultKind {
	_, late := errors.AsType[*TimeoutError](err)
	_, notStarted := errors.AsType[*StartError](err)
	switch {
	case late:
		return failure.HookTimeout
	case notStarted:
		return failure.HookUnreachable
	}
	return failure.HookFailed
}
