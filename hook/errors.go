package hook

import (
	"errors"
	"fmt"
	"time"
)

// RetryAfterError is a hook's wish to be asked again, not before After.
type RetryAfterError struct {
	After time.Duration
	Err   error
}

func (e *RetryAfterError) Error() string { return e.Err.Error() }
func (e *RetryAfterError) Unwrap() error { return e.Err }

// TerminalError says that asking again is of no use until the input changes.
type TerminalError struct{ Err error }

func (e *TerminalError) Error() string { return e.Err.Error() }
func (e *TerminalError) Unwrap() error { return e.Err }

// UnreachableError says that nobody answered: the fault lies with the way to the
// hook, or with the hook as a whole, and not with what it was asked.
type UnreachableError struct{ Err error }

func (e *UnreachableError) Error() string { return e.Err.Error() }
func (e *UnreachableError) Unwrap() error { return e.Err }

// MalformedError is a reply that cannot be understood. Nothing of such a reply
// is acted upon.
type MalformedError struct {
	// Path is where, such as "children[2].metadata.name"; empty for the
	// reply as a whole.
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

// RetryDelay is the delay that a hook asks for, if that is what an error is.
func RetryDelay(err error) (time.Duration, bool) {
	if later, ok := errors.AsType[*RetryAfterError](err); ok {
		return later.After, true
	}
	return 0, false
}

// IsTerminal says that an error is, or wraps, a TerminalError.
func IsTerminal(err error) bool { return isType[*TerminalError](err) }

// IsUnreachable says that an error is, or wraps, an UnreachableError.
func IsUnreachable(err error) bool { return isType[*UnreachableError](err) }

// IsMalformed says that an error is, or wraps, a MalformedError.
func IsMalformed(err error) bool { return isType[*MalformedError](err) }

func isType[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
