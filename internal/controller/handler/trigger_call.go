package handler

import (
	"cmp"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// call is one call of a handler for one reason.
type call struct {
	handler  *state
	reason   hook.Reason
	previous *object.Object
	object   *object.Object
	// watched is the digest of the watched fields of the object.
	watched string
	// digest identifies the input: the digest of the watched fields, or of the owned objects.
	digest string
	// attempt counts the failed calls before, the first of which was at firstAttempt.
	attempt      int
	firstAttempt time.Time
	// event is the change of a hook.ReasonEvent call, scheduledAt the time of a timer call.
	event       observedEvent
	scheduledAt time.Time
	// repeated means that the handler was called for the same input before.
	repeated bool
}

// changed returns the object of the event, or the current one.
func (c *call) changed() *object.Object { return cmp.Or(c.event.New, c.object) }

// digestAfter returns the digest of the input once the watched fields have a digest.
func (c *call) digestAfter(watched string) string {
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume:
		return watched
	case hook.ReasonDelete:
		return lasthandled.DeletionDigest(watched)
	}
	return c.digest
}

// supersedes reports whether a response to a call replaces one for a former call that is still to be written. An event
// is a matter of its own, and a timer says nothing about a change.
func (c *call) supersedes(former hook.Reason) bool {
	switch {
	case c.reason == hook.ReasonEvent || former == hook.ReasonEvent:
		return false
	case c.reason == hook.ReasonTimer:
		return former == hook.ReasonTimer
	}
	return true
}

// isChange reports whether a call is the first one for a change.
func (c *call) isChange() bool {
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift, hook.ReasonRelated, hook.ReasonEvent, hook.ReasonMatch:
		return !c.repeated
	}
	return false
}
