package trigger

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Call is one call of a handler for one reason.
type Call struct {
	Handler  *State
	Reason   hook.Reason
	Previous *object.Object
	Object   *object.Object
	// watched is the digest of the watched fields of the object.
	watched string
	// Digest identifies the input: the digest of the watched fields, or of the owned objects.
	Digest string
	// Attempt counts the failed calls before, the first of which was at firstAttempt.
	Attempt      int
	FirstAttempt time.Time
	// Event is the change of a hook.ReasonEvent call, scheduledAt the time of a timer call.
	Event       Event
	scheduledAt time.Time
	// Repeated means that the handler was called for the same input before.
	Repeated bool
}

// digestAfter returns the digest of the input once the watched fields have a digest.
func (c *Call) digestAfter(watched string) string {
	switch c.Reason {
	case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume:
		return watched
	case hook.ReasonDelete:
		return lasthandled.DeletionDigest(watched)
	}
	return c.Digest
}

// supersedes reports whether a response to a call replaces one for a previous call that is still to be written. An event
// is a matter of its own, and a timer says nothing about a change.
func (c *Call) supersedes(previous hook.Reason) bool {
	ofEvent := c.Reason == hook.ReasonEvent || previous == hook.ReasonEvent
	return !ofEvent && (c.Reason != hook.ReasonTimer || previous == hook.ReasonTimer)
}

// isChange reports whether a call is the first one for a change.
func (c *Call) isChange() bool {
	switch c.Reason {
	case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift, hook.ReasonRelated, hook.ReasonEvent, hook.ReasonMatch:
		return !c.Repeated
	}
	return false
}

// MaxEvents bounds the buffered events of one object. Further events are merged.
const MaxEvents = 16

// Event is a change of an object with its type.
type Event struct {
	cache.Event

	Kind hook.EventType
}

// NewEvent returns an event of a watch. A new list after an interrupted watch yields the differences
// only, so an unknown object has been added.
func NewEvent(e cache.Event) Event {
	switch {
	case e.New == nil:
		return Event{e, hook.EventDeleted}
	case e.Old == nil:
		return Event{e, hook.EventAdded}
	}
	return Event{e, hook.EventModified}
}

// AppendEvent adds an event, once. Above the limit it merges the last two, but no deletion.
func AppendEvent(list []Event, e Event) []Event {
	if len(list) == 0 || e.New == nil {
		return append(list, e)
	}
	last := &list[len(list)-1]
	switch {
	case last.New == e.New:
	case len(list) >= MaxEvents && last.New != nil:
		last.New = e.New
	default:
		return append(list, e)
	}
	return list
}

type calls []Call

// Includes reports whether a handler has a call.
func (all calls) Includes(h *State) bool {
	return slices.ContainsFunc(all, func(c Call) bool { return c.Handler == h })
}

// due has the calls to make now, and when to compute them again.
type due struct {
	Calls calls
	// waiting are the handlers in backoff.
	waiting []*State
	// firstSeen are the handlers that get an entry without a call: the first state that they see is no update.
	firstSeen []*State
	next      time.Time
}

// Includes reports whether a handler is to be called, now or later.
func (a *due) Includes(h *State) bool {
	return slices.Contains(a.waiting, h) || a.Calls.Includes(h)
}
