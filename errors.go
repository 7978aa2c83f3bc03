package setpoint

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// RetryAfter is an error after which a handler is told the same again, not before
// that time has passed. A plain error comes again after an exponential backoff, and so
// does one with no time left.
func RetryAfter(after time.Duration, err error) error {
	return &hook.RetryAfterError{After: after, Err: orUnknownError(err)}
}

// Permanent is an error of which telling the handler again is of no use until the
// object changes.
func Permanent(err error) error { return &hook.TerminalError{Err: orUnknownError(err)} }

// orUnknownError keeps a nil error from looking like none.
func orUnknownError(err error) error {
	if err == nil {
		return errors.New("no reason was given")
	}
	return err
}

// permanentError is a permanent error of our own.
func permanentError(format string, args ...any) error { return Permanent(fmt.Errorf(format, args...)) }
