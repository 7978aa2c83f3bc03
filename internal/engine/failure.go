package engine

import (
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// failure is an error of a step with the reason its event carries.
type failure struct {
	reason string
	err    error
}

func (f *failure) Error() string { return f.err.Error() }
func (f *failure) Unwrap() error { return f.err }

func failed(reason string, err error) error { return &failure{reason: reason, err: err} }

// errMoved ends a run that met an object which changed under its hands. It is
// nobody's fault: the run is repeated on what is there now.
var errMoved = errors.New("an object changed meanwhile")

// errMore ends a run that has come to the end of its rounds and goes on in the
// next one.
var errMore = errors.New("there is more to do")

// reasonOf is the reason of an error's event.
func reasonOf(err error) string {
	if f, ok := errors.AsType[*failure](err); ok {
		return f.reason
	}
	return ReasonWriteFailed
}

// hookFailure gives a hook's error its reason.
func hookFailure(asked string, err error) error {
	if _, ok := errors.AsType[*hook.MalformedError](err); ok {
		return failed(ReasonInvalidReply, fmt.Errorf("%s hook: %w", asked, err))
	}
	if delay, later := postponement(err); later {
		return failed(ReasonHookFailed, fmt.Errorf("%s hook: %w; it is left alone for %v, as it asks", asked, err, delay.Round(time.Second)))
	}
	return failed(ReasonHookFailed, fmt.Errorf("%s hook: %w", asked, err))
}

// maxMessage is the longest message that is told: a reply or an answer of the API
// server may be quoted in it, and a condition holds no more than 32 KiB.
const maxMessage = 1000

// oneLine is how an error is told: tables show no more than the first line.
func oneLine(err error) string {
	message := strings.ReplaceAll(err.Error(), "\n", "; ")
	if len(message) > maxMessage {
		message = strings.ToValidUTF8(message[:maxMessage], "") + "…"
	}
	return message
}

// postponement is the delay a hook asked for, if that is what the error is.
func postponement(err error) (time.Duration, bool) {
	if later, ok := errors.AsType[*hook.RetryAfterError](err); ok {
		return later.After, true
	}
	return 0, false
}

// terminal says that asking again is of no use until the input changes.
func terminal(err error) bool {
	_, is := errors.AsType[*hook.TerminalError](err)
	return is
}

// unreachable says that the hook as a whole seems to be down.
func unreachable(err error) bool {
	_, is := errors.AsType[*hook.UnreachableError](err)
	return is
}

// ofHook says that the failure lies with the hook, not with a write.
func ofHook(err error) bool {
	if _, later := postponement(err); later {
		return true
	}
	reason := reasonOf(err)
	return reason == ReasonHookFailed || reason == ReasonInvalidReply
}
