package setpoint

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// RetryAfter wraps an error of a handler so that Setpoint retries after this time. It
// retries other errors, and this one if the time is not positive, after an exponential
// backoff.
func RetryAfter(after time.Duration, err error) error {
	return &hook.RetryAfterError{After: after, Err: orUnknownError(err)}
}

// Permanent wraps an error of a handler so that Setpoint does not retry until the object
// changes.
func Permanent(err error) error { return &hook.TerminalError{Err: orUnknownError(err)} }

func orUnknownError(err error) error {
	if err == nil {
		return errors.New("unknown error")
	}
	return err
}

func permanentError(format string, args ...any) error { return Permanent(fmt.Errorf(format, args...)) }
