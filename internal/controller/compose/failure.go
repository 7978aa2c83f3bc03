package compose

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// errIncomplete ends a run that has used its passes and continues in the next run.
var errIncomplete = errors.New("continued in the next run")

// hookFailure adds the reason to an error of a hook.
func hookFailure(hookName string, err error) error {
	reason := ReasonHookFailed
	if hook.IsMalformed(err) {
		reason = ReasonInvalidResponse
	} else if delay, delayed := hook.RetryDelay(err); delayed {
		err = fmt.Errorf("%w; next call in %v", err, delay.Round(time.Second))
	}
	return failure.WithReason(reason, fmt.Errorf("%s hook: %w", hookName, err))
}

// isHookFailure reports whether a hook caused the failure, not a write.
func isHookFailure(err error) bool {
	if _, delayed := hook.RetryDelay(err); delayed {
		return true
	}
	reason := controller.ReasonOf(err)
	return reason == ReasonHookFailed || reason == ReasonInvalidResponse
}
