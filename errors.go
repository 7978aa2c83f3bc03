package setpoint

import (
	"errors"
	"fmt"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

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

// Denial is an error by which a review denies a change. The user reads its message, and
// those of the errors that wrap it.
type Denial struct {
	Message string
	// Reason is the API server's reason for such an error, such as "Conflict"; the
	// default is that of the code. Code is the HTTP status; the default is that of the reason, or 403.
	Reason string
	Code   int
}

func (d *Denial) Error() string { return d.Message }

// Deny denies a change that is not allowed (403 Forbidden). The message says what is
// wrong and what to do.
func Deny(format string, args ...any) error {
	return &Denial{Message: fmt.Sprintf(format, args...)}
}

// Invalid denies an invalid object (422 Invalid), like a schema. The message begins with
// the field path.
func Invalid(format string, args ...any) error {
	return &Denial{Message: fmt.Sprintf(format, args...), Reason: string(metav1.StatusReasonInvalid)}
}

// denialIn returns the denial in an error, or nil.
func denialIn(err error) *hook.Denial {
	d, denied := errors.AsType[*Denial](err)
	if !denied {
		return nil
	}
	return &hook.Denial{Message: err.Error(), Reason: d.Reason, Code: d.Code}
}
