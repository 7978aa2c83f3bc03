package engine

import (
	"errors"
	"fmt"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
)

// errMoved ends a run that met an object which changed under its hands. It is
// nobody's fault: the run is repeated on what is there now.
var errMoved = errors.New("an object changed meanwhile")

// errMore ends a run that has come to the end of its rounds and goes on in the
// next one.
var errMore = errors.New("there is more to do")

// reasonOf is the reason of an error's event.
func reasonOf(err error) string { return failure.Reason(err, ReasonWriteFailed) }

// hookFailure gives a hook's error its reason.
func hookFailure(asked string, err error) error {
	reason := ReasonHookFailed
	if hook.Malformed(err) {
		reason = ReasonInvalidReply
	} else if delay, later := hook.Postponed(err); later {
		err = fmt.Errorf("%w; it is left alone for %v, as it asks", err, delay.Round(time.Second))
	}
	return failure.New(reason, fmt.Errorf("%s hook: %w", asked, err))
}

// ofHook says that the failure lies with the hook, not with a write.
func ofHook(err error) bool {
	if _, later := hook.Postponed(err); later {
		return true
	}
	reason := reasonOf(err)
	return reason == ReasonHookFailed || reason == ReasonInvalidReply
}
