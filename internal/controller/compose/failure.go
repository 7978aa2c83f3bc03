package compose

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// errConflict ends a run that met an object which changed under its hands. It is
// nobody's fault: the run is repeated on what is there now.
var errConflict = errors.New("an object changed meanwhile")

// errIncomplete ends a run that has come to the end of its rounds and goes on in the
// next one.
var errIncomplete = errors.New("there is more to do")

// reasonOf is the reason of an error's event.
func reasonOf(err error) string { return failure.Reason(err, ReasonWriteFailed) }

// hookFailure gives a hook's error its reason.
func hookFailure(asked string, err error) error {
	reason := ReasonHookFailed
	if hook.IsMalformed(err) {
		reason = ReasonInvalidResponse
	} else if delay, delayed := hook.RetryDelay(err); delayed {
		err = fmt.Errorf("%w; it is left alone for %v, as it asks", err, delay.Round(time.Second))
	}
	return failure.WithReason(reason, fmt.Errorf("%s hook: %w", asked, err))
}

// isHookFailure says that the failure lies with the hook, not with a write.
func isHookFailure(err error) bool {
	if _, delayed := hook.RetryDelay(err); delayed {
		return true
	}
	reason := reasonOf(err)
	return reason == ReasonHookFailed || reason == ReasonInvalidResponse
}
