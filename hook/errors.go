package hook

import (
	"errors"
	"fmt"
	"time"
)

// MalformedError is an invalid response. Setpoint applies no part of such a response.
type MalformedError struct {
	// Path locates the error, such as "children[2].metadata.name"; empty for the
	// response as a whole.
	Path string
	Err  error
}

func (e *MalformedError) Error() string {
	if e.Path == "" {
		return fmt.Sprintf("malformed response: %v", e.Err)
	}
	return fmt.Sprintf("malformed response: %s: %v", e.Path, e.Err)
}

func (e *MalformedError) Unwrap() error { return e.Err }

// RetryAfterError requests a retry no earlier than After from now.
type RetryAfterError struct {
	After time.Duration
	Err   error
}

func (e *RetryAfterError) Error() string { return e.Err.Error() }
func (e *RetryAfterError) Unwrap() error { return e.Err }

// TerminalError stops retries until the input changes.
type TerminalError struct{ Err error }

func (e *TerminalError) Error() string { return e.Err.Error() }
func (e *TerminalError) Unwrap() error { return e.Err }

// UnreachableError means that the call did not reach the hook: the network or the hook
// as a whole failed, independently of the request.
type UnreachableError struct {
	Err error
	// Connected means that there is a process, which accepted the call and did not finish it: it may crash at each.
	Connected bool
}

func (e *UnreachableError) Error() string { return e.Err.Error() }
func (e *UnreachableError) Unwrap() error { return e.Err }

// RetryDelay returns the delay of the RetryAfterError that err wraps, if any.
func RetryDelay(err error) (time.Duration, bool) {
	if later, ok := errors.AsType[*RetryAfterError](err); ok {
		return later.After, true
	}
	return 0, false
}

// IsTerminal reports whether err wraps a TerminalError.
func IsTerminal(err error) bool { return isType[*TerminalError](err) }

// IsUnreachable reports whether err wraps an UnreachableError.
func IsUnreachable(err error) bool { return isType[*UnreachableError](err) }

// IsUnconnected reports whether err wraps an UnreachableError without a connection: a call costs the hook nothing.
func IsUnconnected(err error) bool {
	unreachable, is := errors.AsType[*UnreachableError](err)
	return is && !unreachable.Connected
}

// IsMalformed reports whether err wraps a MalformedError.
func IsMalformed(err error) bool { return isType[*MalformedError](err) }

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}

// StatusCode returns the HTTP status of the response that err wraps, 0 for none.
func StatusCode(err error) int {
	type statusError interface {
		error
		StatusCode() int
	}
	if status, ok := errors.AsType[statusError](err); ok {
		return status.StatusCode()
	}
	return 0
}
