package compose

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// errConflict ends a run because an object changed concurrently. The run is retried silently.
var errConflict = errors.New("object changed concurrently")

// errIncomplete ends a run that has used its passes and continues in the next run.
var errIncomplete = errors.New("continued in the next run")

// reasonOf returns the event reason of an error.
func reasonOf(err error) string { return failure.Reason(err, ReasonWriteFailed) }

// hookFailure adds the reason to an error of a hook.
func hookFailure(asked string, err error) error {
	reason := ReasonHookFailed
	if hook.IsMalformed(err) {
		reason = ReasonInvalidResponse
	} else if delay, delayed := hook.RetryDelay(err); delayed {
		err = fmt.Errorf("%w; next call in %v", err, delay.Round(time.Second))
	}
	return failure.WithReason(reason, fmt.Errorf("%s hook: %w", asked, err))
}

// isHookFailure reports whether a hook caused the failure, not a write.
func isHookFailure(err error) bool {
	if _, delayed := hook.RetryDelay(err); delayed {
		return true
	}
	reason := reasonOf(err)
	return reason == ReasonHookFailed || reason == ReasonInvalidResponse
}
