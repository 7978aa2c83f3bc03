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
		return fmt.Sprintf("malformed reply: %v", e.Err)
	}
	return fmt.Sprintf("malformed reply: %s: %v", e.Path, e.Err)
}

func (e *MalformedError) Unwrap() error { return e.Err }

// Postponed is the delay that a hook asks for, if that is what an error is.
func Postponed(err error) (time.Duration, bool) {
	if later, ok := errors.AsType[*RetryAfterError](err); ok {
		return later.After, true
	}
	return 0, false
}

// Terminal says that an error is, or wraps, a TerminalError.
func Terminal(err error) bool { return is[*TerminalError](err) }

// Unreachable says that an error is, or wraps, an UnreachableError.
func Unreachable(err error) bool { return is[*UnreachableError](err) }

// Malformed says that an error is, or wraps, a MalformedError.
func Malformed(err error) bool { return is[*MalformedError](err) }

func is[E error](err error) bool {
	_, ok := errors.AsType[E](err)
	return ok
}
