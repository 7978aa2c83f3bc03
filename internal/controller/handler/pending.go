package handler

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// call is one call of a handler for one reason.
type call struct {
	handler  *handlerMemory
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
		return deletionDigest(watched)
	}
	return c.digest
}

type calls []call

// includes reports whether a handler has a call.
func (all calls) includes(h *handlerMemory) bool {
	return slices.ContainsFunc(all, func(c call) bool { return c.handler == h })
}

// pendingCalls has the calls to make now, and when to compute them again.
type pendingCalls struct {
	calls calls
	// waiting are the handlers in backoff.
	waiting []*handlerMemory
	// firstSeen are the handlers that get an entry without a call: the first state that they
	// see is no update.
	firstSeen []*handlerMemory
	next      time.Time
}

func (h *Handler) handles(reason hook.Reason) bool { return slices.Contains(h.On, reason) }

// matches reports whether a handler's condition matches.
func (h *Handler) matches(old, now *object.Object) bool { return h.When == nil || h.When(old, now) }

// pendingCalls returns the pending calls for the object.
func (r *run) pendingCalls() pendingCalls {
	var a pendingCalls
	for _, h := range r.memory.handlers {
		r.addHandler(&a, h)
	}
	return a
}

// addHandler adds the pending calls of one handler.
func (r *run) addHandler(a *pendingCalls, h *handlerMemory) {
	if h.Daemon != nil {
		return
	}
	if r.awaitsMatch(h) {
		a.waiting = append(a.waiting, h)
		if h.Conditional {
			a.next = earliest(a.next, h.matchAttempt.next)
		}
		return
	}
	if c, is := r.changeCall(h); is {
		r.addCall(a, c)
		return
	}
	if r.isFirstSeen(h) {
		a.firstSeen = append(a.firstSeen, h)
	}
	r.addTimer(a, h)
}

// addCall adds a call, unless the handler is in backoff.
func (r *run) addCall(a *pendingCalls, c call) {
	h, now := c.handler, r.tools.Now()
	if settled := h.watchedSince.Add(h.Debounce); c.reason == hook.ReasonUpdate && settled.After(now) && !r.IsDry() {
		a.next = earliest(a.next, settled)
		return
	}
	if former := &h.attempt; former.isFor(c) {
		c.attempt, c.firstAttempt = former.count, former.since
		skipsBackoff := r.skipsBackoff(former) || !former.hasInput(c) || h.relatedUnseen
		c.repeated = !skipsBackoff
		if former.next.After(now) && !skipsBackoff {
			a.next = earliest(a.next, former.next)
			a.waiting = append(a.waiting, h)
			return
		}
	}
	if c.isChange() && r.throttled() {
		a.next = earliest(a.next, r.memory.throttle.until)
		a.waiting = append(a.waiting, h)
		return
	}
	a.calls = append(a.calls, c)
}

// skipsBackoff reports whether a retry is made before its delay has ended.
func (r *run) skipsBackoff(former *attempt) bool {
	changed := former.requeued && former.objectDigest != "" && former.objectDigest != digest(watchableFields(r.Stored))
	return changed || r.retriesCalls()
}

// isFor reports whether a call continues an attempt. An attempt that only the record has is for any
// call.
func (a *attempt) isFor(c call) bool { return a.reason == c.reason || a.isRestored() }

// isRestored reports whether an attempt is that of the record.
func (a *attempt) isRestored() bool { return a.reason == "" && a.count > 0 }

// hasInput reports whether a call is for the input of the latest call of an attempt.
func (a *attempt) hasInput(c call) bool {
	return a.reason == c.reason && (a.digest == c.digest || a.digestBefore == c.digest) || a.isRestored()
}

// changeReasons are the reasons that depend on an entry. If several apply, the handler is
// called for the first. A handler with one of them gets an entry at first sight.
var changeReasons = [...]hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume, hook.ReasonDrift}

// changeCall returns the call that follows from a handler's entry and the current object.
func (r *run) changeCall(h *handlerMemory) (call, bool) {
	if r.Stored.Deleting() {
		return r.deletionCall(h)
	}
	for _, reason := range changeReasons {
		c := call{handler: h, reason: reason, object: r.Stored, watched: h.watched, digest: h.watched, previous: h.handled}
		switch reason {
		case hook.ReasonCreate:
			c.previous = nil
		case hook.ReasonDrift:
			c.digest = r.ownedDigest
		}
		if r.handlesReason(h, reason) && r.applies(reason, h) && h.matches(c.previous, r.Stored) &&
			r.holds(h, reason, c.previous, r.Stored) && !r.declines(h, reason) {
			return c, true
		}
	}
	related := call{handler: h, reason: hook.ReasonRelated, object: r.Stored, watched: h.watched, digest: h.watched, previous: h.handled}
	return related, h.relatedChanged && h.matches(h.handled, r.Stored)
}

// handlesReason reports whether a handler is called for a reason that depends on its entry. An
// object of a former controller is new to all handlers that compare with what they handled.
func (r *run) handlesReason(h *handlerMemory, reason hook.Reason) bool {
	return h.handles(reason) || reason == hook.ReasonCreate && r.wasReplaced() && slices.ContainsFunc(changeReasons[:], h.handles)
}

// wasReplaced reports whether a former controller has handled the object.
func (r *run) wasReplaced() bool {
	return r.program.ReplacedAnnotation != "" && r.Stored.Field("metadata", "annotations", r.program.ReplacedAnnotation) != nil
}

// applies reports whether a reason applies to an object, before the handler's condition. A
// handler that gave up is called again when its input changes.
func (r *run) applies(reason hook.Reason, h *handlerMemory) bool {
	e, changed := h.entry(), h.hasChanged()
	anew := e.Failed && (changed || h.relatedChanged || r.retriesCalls())
	switch reason {
	case hook.ReasonCreate:
		return e.Digest == "" || (anew || e.Dropped) && !h.handles(hook.ReasonUpdate) || e.hasProgress(reason)
	case hook.ReasonUpdate:
		if e.Digest == "" {
			return h.firstDigest != "" && !h.isAt(basis{h.firstDigest, h.handled}) && !h.mayBeCalled(hook.ReasonUpdate, r.Stored)
		}
		// A handler with an update in progress must also see a revert.
		return anew || changed && !e.Failed || e.Dropped || e.InProgress != "" || e.hasProgress(reason)
	case hook.ReasonResume:
		return e.Digest != "" && !h.resumed
	default:
		// The handler may have requested another call for a drift.
		requeued := h.attempt.requeued && h.attempt.reason == hook.ReasonDrift
		return e.Digest != "" && (e.OwnedDigest != "" && e.OwnedDigest != r.ownedDigest || requeued || e.hasProgress(reason))
	}
}

// hasChanged reports whether the watched fields are not as they were handled, or have been different meanwhile and a
// call may have done a part of the work for that: it failed, or the process ended.
func (m *handlerMemory) hasChanged() bool {
	return !m.isHandled() || m.editUndone || m.attempt.reason == hook.ReasonUpdate && m.attempt.count > 0
}

// isHandled reports whether the watched fields have been handled.
func (m *handlerMemory) isHandled() bool { return m.isAt(basis{m.entry().Digest, m.handled}) }

// isStoredAs reports whether the watched fields have a digest of the entry, also as the server stored
// them.
func (m *handlerMemory) isStoredAs(recorded string) bool {
	return recorded == m.watched || m.serverDigest.recorded == recorded && m.serverDigest.actual == m.watched
}

// deletionCall returns the call of a Delete handler.
func (r *run) deletionCall(h *handlerMemory) (call, bool) {
	e, input := h.entry(), deletionDigest(h.watched)
	settled := e.Done || e.Failed && e.Digest == input && !h.relatedChanged && !r.retriesCalls()
	if settled || !h.handles(hook.ReasonDelete) || !h.Optional && !r.program.hasFinalizer(r.Stored) || !h.matches(nil, r.Stored) ||
		!r.holds(h, hook.ReasonDelete, nil, r.Stored) || r.declines(h, hook.ReasonDelete) {
		return call{}, false
	}
	return call{handler: h, reason: hook.ReasonDelete, object: r.Stored, watched: h.watched, digest: input, previous: h.handled}, true
}

// deletionPrefix is that of the digest of an object in deletion.
const deletionPrefix = "-"

// deletionDigest returns the digest of an object in deletion.
func deletionDigest(watched string) string { return deletionPrefix + watched }

// isFirstSeen reports whether a handler gets its entry without a call. A Drift handler needs a
// digest to compare with.
func (r *run) isFirstSeen(h *handlerMemory) bool {
	if r.Stored.Deleting() || !slices.ContainsFunc(changeReasons[:], h.handles) {
		return false
	}
	e := h.entry()
	without := e.Digest == "" && !r.handlesReason(h, hook.ReasonCreate) || e.Digest != "" && h.handles(hook.ReasonDrift) &&
		e.OwnedDigest == ""
	return without && h.mayBeCalled(h.firstReason(), r.Stored)
}

// addTimer adds a timer call that is due. It waits for the write of a response for another reason: what a timer
// responds need not have that.
func (r *run) addTimer(a *pendingCalls, h *handlerMemory) {
	if !r.mayTick(h) || r.memory.hasUnwritten(h) {
		return
	}
	now := r.tools.Now()
	c := call{handler: h, reason: hook.ReasonTimer, object: r.Stored, watched: h.watched, previous: h.handled}
	if h.attempt.reason == hook.ReasonTimer {
		c.scheduledAt = earliest(h.attempt.next, now)
		r.addCall(a, c)
		return
	}
	at := r.nextTick(h)
	switch {
	case at.IsZero():
	case at.After(now) && !r.causes.Has(queue.ReconcileRequested):
		a.next = earliest(a.next, at)
	default:
		c.scheduledAt = earliest(at, now)
		a.calls = append(a.calls, c)
	}
}

// mayTick reports whether the handler has a timer that runs for the object.
func (r *run) mayTick(h *handlerMemory) bool {
	return (h.Every > 0 || h.Schedule != nil) && !r.Stored.Deleting() && h.matches(nil, r.Stored) &&
		r.holds(h, hook.ReasonTimer, nil, r.Stored) && !r.declines(h, hook.ReasonTimer)
}
