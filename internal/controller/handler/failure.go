package handler

import (
	"cmp"
	"errors"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// Reasons of events on handled objects, and of the condition Handled.
const (
	// ReasonHandled goes with status True.
	ReasonHandled = "Handled"
	// ReasonHandlerFailed: a handler failed; Setpoint retries.
	ReasonHandlerFailed = "HandlerFailed"
	// ReasonExpressionFailed: the expression in when of a handler failed, so it is not known whether the handler
	// handles the object. Setpoint evaluates it again when the object changes.
	ReasonExpressionFailed = "ExpressionFailed"
	// ReasonGaveUp: the retries of a handler are exhausted, or its error is permanent. Setpoint
	// calls it again when a watched field changes.
	ReasonGaveUp = "HandlerGaveUp"
	// ReasonInvalidResponse: the response of a handler is invalid or not permitted; the message
	// has the field path.
	ReasonInvalidResponse = "InvalidResponse"
	// ReasonReadFailed: Setpoint cannot read an object that it needs.
	ReasonReadFailed = "ReadFailed"
	// ReasonConflicting: the object changes more than once a second for long, so Setpoint throttles
	// its handlers. The message names the handler and the fields.
	ReasonConflicting = "Conflicting"
	// ReasonPreviousStateNotStored: Setpoint could not store the previous state of the object.
	ReasonPreviousStateNotStored = "PreviousStateNotStored"
	// ReasonPreviousStateLost: the stored previous state is missing or was changed.
	ReasonPreviousStateLost = "PreviousStateLost"
	// ReasonEvictionRefused: a PodDisruptionBudget has refused an eviction for ten seconds;
	// Setpoint retries.
	ReasonEvictionRefused = "EvictionRefused"
	// ReasonDaemonStuck: a daemon did not return within its stop timeout.
	ReasonDaemonStuck = "DaemonStuck"
	// ReasonConflictResolved: the object has not changed for a minute, and Setpoint no longer
	// throttles its handlers.
	ReasonConflictResolved = "ConflictResolved"
)

// errTooManyConflicts means that controller.ErrConflict lasted too long.
var errTooManyConflicts = errors.New("too many conflicts in a row")

// The first and the maximum delay between attempts, unless a handler sets its own.
// unreachableDelay replaces longestDelay without a connection: such a call costs little, and
// only a call finds out that the hook is back.
const (
	firstDelay       = time.Second
	longestDelay     = 5 * time.Minute
	unreachableDelay = 15 * time.Second
)

// jitter is the maximum random extension of a delay, so that objects that failed together do
// not retry together. It never shortens a delay.
const jitter = 0.25

// backoff returns the delay after one or more failures in a row. Random returns random numbers in [0,1).
func backoff(failures int, first, longest time.Duration, random func() float64) time.Duration {
	delay := longest
	if doublings := failures - 1; doublings < 32 && first<<doublings < longest {
		delay = first << doublings
	}
	return delay + time.Duration(jitter*random()*float64(delay))
}

// delay returns how long a handler waits after a failure.
func (h *Handler) delay(err error, failures int, random func() float64) time.Duration {
	if requested, _ := hook.RetryDelay(err); requested > 0 {
		return requested
	}
	first, longest := cmp.Or(h.Backoff, firstDelay), cmp.Or(h.MaxBackoff, longestDelay)
	if hook.IsUnconnected(err) && longest == longestDelay {
		longest = unreachableDelay
	}
	return backoff(failures, first, max(first, longest), random)
}

// exhausted reports whether a handler with a retry limit has reached it.
func (h *Handler) exhausted(a attempt) bool {
	switch {
	case h.Retries < 0, h.Retries > 0 && a.count > h.Retries:
		return true
	case h.RetryTimeout > 0:
		return a.next.Sub(a.since) > h.RetryTimeout
	}
	return false
}

// hasRetryLimit reports whether a handler has a retry limit, which counts across restarts.
func (h *Handler) hasRetryLimit() bool { return h.Retries > 0 || h.RetryTimeout > 0 }
