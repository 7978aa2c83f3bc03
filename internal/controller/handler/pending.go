package handler

import (
	"cmp"
	"hash/fnv"
	"math"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
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
		return lasthandled.DeletionDigest(watched)
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
	changed := former.requeued && former.objectDigest != "" && former.objectDigest != lasthandled.Digest(watchableFields(r.Stored))
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
		return e.Digest == "" || (anew || e.Dropped) && !h.handles(hook.ReasonUpdate) || e.HasProgress(reason)
	case hook.ReasonUpdate:
		if e.Digest == "" {
			return h.firstDigest != "" && !h.isAt(basis{h.firstDigest, h.handled}) && !h.mayBeCalled(hook.ReasonUpdate, r.Stored)
		}
		// A handler with an update in progress must also see a revert.
		return anew || changed && !e.Failed || e.Dropped || e.InProgress != "" || e.HasProgress(reason)
	case hook.ReasonResume:
		return e.Digest != "" && !h.resumed
	default:
		// The handler may have requested another call for a drift.
		requeued := h.attempt.requeued && h.attempt.reason == hook.ReasonDrift
		return e.Digest != "" && (e.OwnedDigest != "" && e.OwnedDigest != r.ownedDigest || requeued || e.HasProgress(reason))
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
	e, input := h.entry(), lasthandled.DeletionDigest(h.watched)
	settled := e.Done || e.Failed && e.Digest == input && !h.relatedChanged && !r.retriesCalls()
	if settled || !h.handles(hook.ReasonDelete) || !h.Optional && !r.program.hasFinalizer(r.Stored) || !h.matches(nil, r.Stored) ||
		!r.holds(h, hook.ReasonDelete, nil, r.Stored) || r.declines(h, hook.ReasonDelete) {
		return call{}, false
	}
	return call{handler: h, reason: hook.ReasonDelete, object: r.Stored, watched: h.watched, digest: input, previous: h.handled}, true
}

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

// pendingResponse is a response that is not completely written yet.
type pendingResponse struct {
	call     call
	response *hook.HandlerResponse
	// resolved means that targets are the objects to delete. They are found once, so that a
	// replacement of the same name survives.
	resolved bool
	targets  []target
	// appliedCount is the number of applied objects.
	appliedCount int
	// applied means that only the object itself remains to be written.
	applied bool
	attempt attempt
	// fresh means that the response is of this run.
	fresh bool
	// base is the object that the handler saw, with our writes of the response since.
	// progressBefore is the handler's progress before the call, for another call, and ownedBefore the digest of the
	// owned objects in its entry.
	base           *object.Object
	progressBefore progress
	ownedBefore    string
	// failed is the error that the handler returned beside the response; usually nil.
	failed *handlerError
}

// changesObject reports whether the response changes the object itself.
func (o *pendingResponse) changesObject() bool {
	a := o.response
	return a.Patch != nil || a.Status != nil || len(a.Conditions) > 0 || a.Message != ""
}

// recordResponse records a response: what to write, and the entry to store with it.
func (r *run) recordResponse(o *pendingResponse) {
	c, response := o.call, o.response
	h := c.handler
	h.failed = nil
	seen, _ := h.basisOf(c)
	e := h.entry()
	o.ownedBefore = e.OwnedDigest
	r.memory.pending = append(r.memory.pending, o)
	r.noteUnwritten(h)
	after := h.unwritten.watched
	switch {
	case c.reason == hook.ReasonEvent, response.Err != nil && response.Progress == nil:
		// The former progress remains.
	case response.Err != nil:
		h.setProgress(&e, c, seen, response.Progress)
	case response.RetryAfter <= 0:
		r.settle(c, &e, seen, false)
	default:
		r.requeueCall(c, response, after)
		h.setProgress(&e, c, seen, response.Progress)
		if c.reason == hook.ReasonUpdate {
			e.InProgress, e.InProgressSince = h.watched, h.watchedSince.Unix()
		}
	}
	if h.handles(hook.ReasonDrift) && c.reason != hook.ReasonEvent && response.Err == nil && e.Digest != "" {
		e.OwnedDigest = r.ownedDigest
	}
	if e != (lasthandled.Entry{}) {
		h.pendingEntry = &e
	}
	if response.Conditions != nil {
		r.memory.conditions = true
	}
	if response.Err != nil {
		r.handlerFailed(c, c.digestAfter(after), response.Err)
		o.failed = h.failed
	}
}

// settle records that a handler has handled the input of a call, or gave up on it. It changes
// the entry of the handler; seen is the state that the handler has seen in all of its calls.
func (r *run) settle(c call, e *lasthandled.Entry, seen basis, gaveUp bool) {
	h := c.handler
	h.attempt, e.Attempts, e.Since = attempt{}, 0, 0
	h.relatedChanged = false
	e.ClearProgress()
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate:
		*e = lasthandled.Entry{
			Digest: seen.digest, Edition: r.editionOf(h.Handler, seen.object), Failed: gaveUp, OwnedDigest: e.OwnedDigest,
		}
		h.handled, h.resumed, h.editUndone = seen.object, true, false
	case hook.ReasonDelete:
		*e = lasthandled.Entry{Done: true}
		if gaveUp && !h.Optional {
			*e = lasthandled.Entry{Digest: lasthandled.DeletionDigest(seen.digest), Failed: true}
			h.handled = seen.object
		}
	case hook.ReasonResume:
		h.resumed, e.Dropped = true, e.Dropped && gaveUp
	case hook.ReasonDrift:
		e.OwnedDigest, e.Dropped = c.digest, e.Dropped && gaveUp
	case hook.ReasonRelated:
		e.Dropped = e.Dropped && gaveUp
	case hook.ReasonTimer:
		h.ticked(c, r.tools.Now())
	}
}

// requeueCall records that a handler requested another call.
func (r *run) requeueCall(c call, response *hook.HandlerResponse, after string) {
	h, former := c.handler, c.handler.attempt
	now, delay := r.tools.Now(), response.RetryAfter
	again := attempt{reason: c.reason, digest: c.digestAfter(after), digestBefore: c.digest, since: now, requeued: true}
	if delay < time.Millisecond { // Such as hook.Immediately.
		delay = 0
		if former.requeued && former.hasInput(c) {
			again.immediateRequeues = former.immediateRequeues + 1
			delay = h.delay(nil, again.immediateRequeues, r.tools.Queue.Random)
		}
	}
	again.next = now.Add(delay)
	h.attempt = again
}

// responsePatch returns what a response changes in the object as a patch, with or without the
// status; nil if it changes nothing.
func responsePatch(a *hook.HandlerResponse, status bool) map[string]any {
	status = status && a.Status != nil
	if a.Patch == nil && !status {
		return nil
	}
	patch := decodeObject(a.Patch)
	if status {
		patch = object.CombinePatches(patch, map[string]any{"status": decodeObject(a.Status)})
	}
	return patch
}

// applyPatch returns an object with a patch; nil if the result is invalid, which the server
// will report.
func applyPatch(o *object.Object, patch map[string]any) *object.Object {
	made, err := object.Encode(object.MergePatch(decodeObject(o.JSON()), patch))
	if err != nil {
		return nil
	}
	return made
}

// watchesStatus reports whether the handler watches a field of the status. A handler that
// watches the whole object does not.
func (h *Handler) watchesStatus() bool {
	return slices.ContainsFunc(h.Fields, func(path []string) bool { return len(path) == 0 || path[0] == "status" })
}

// dropSuperseded drops the pending responses of a handler that is about to be called again for something newer.
func (r *run) dropSuperseded(c call) {
	h := c.handler
	for _, o := range slices.Clone(r.memory.pending) {
		if o.call.handler != h || !c.supersedes(o.call.reason) {
			continue
		}
		r.drop(o)
		e, settled := h.entry(), o.response.Err == nil && o.response.RetryAfter <= 0
		switch o.call.reason {
		case hook.ReasonCreate, hook.ReasonUpdate:
			e.Dropped = settled
		case hook.ReasonDrift:
			e.OwnedDigest = o.ownedBefore
		}
		if e != h.entry() {
			h.pendingEntry = &e
		}
	}
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

// hasConflict reports whether a field that a response sets has changed since the handler saw
// it, by another client or another handler. The base includes what was written of the response
// itself.
func (r *run) hasConflict(o *pendingResponse) bool {
	return o.base != nil && len(conflictingFields(o.response, o.base, r.Stored, false)) > 0
}

// callAgain drops a conflicting response, so that the handler is called again for the current
// object.
func (r *run) callAgain(o *pendingResponse) {
	r.drop(o)
	h := o.call.handler
	o.takeBack()
	if o.call.reason == hook.ReasonEvent {
		h.events = append([]observedEvent{o.call.event}, h.events...)
	}
	r.Log.Debug("conflict: object changed concurrently; calling the handler again", "object", r.Stored.Ref().String(),
		"handler", h.Name)
}

// takeBack takes the handler back to before the response. A part of the response may be stored, so the handler is called
// again, even if the object is then as it was handled before.
func (o *pendingResponse) takeBack() {
	h, reason := o.call.handler, o.call.reason
	if reason == hook.ReasonEvent {
		return
	}
	h.progress = o.progressBefore
	if e := h.entry(); e.Digest != "" && (reason == hook.ReasonCreate || reason == hook.ReasonUpdate) {
		e.Dropped = true
		h.pendingEntry = &e
	}
}

// hasPending reports whether a handler has a pending response that is not among those given.
func (m *memory) hasPending(h *handlerMemory, but []*pendingResponse) bool {
	return slices.ContainsFunc(m.pending, func(o *pendingResponse) bool { return o.call.handler == h && !slices.Contains(but, o) })
}

// hasUnwritten reports whether a handler has a pending response to something else than an event or a timer.
func (m *memory) hasUnwritten(h *handlerMemory) bool {
	return slices.ContainsFunc(m.pending, func(o *pendingResponse) bool {
		return o.call.handler == h && o.call.reason != hook.ReasonEvent && o.call.reason != hook.ReasonTimer
	})
}

// removePending removes responses that need no further write.
func (m *memory) removePending(these ...*pendingResponse) {
	m.pending = slices.DeleteFunc(m.pending, func(o *pendingResponse) bool { return slices.Contains(these, o) })
}

// drop removes a response that is not written any more.
func (r *run) drop(o *pendingResponse) {
	r.memory.removePending(o)
	r.noteUnwritten(o.call.handler)
}

// nextTime returns the first time of a timer after a time; zero if none. The times of an
// interval start at the object's creation, until a call is late: see intervalStart.
func (h *Handler) nextTime(o *object.Object, after time.Time) time.Time {
	shift := h.jitterOffset(o.UID())
	if h.Schedule != nil {
		next := h.Schedule.Next(after.Add(-shift))
		if next.IsZero() {
			return next
		}
		return next.Add(shift)
	}
	begin := earliest(createdAt(o), after).Add(shift) // The clock of the API server may be ahead.
	if after.Before(begin) {
		return begin.Add(h.Every)
	}
	passed := after.Sub(begin)
	return begin.Add(passed - passed%h.Every + h.Every)
}

// intervalStart returns the time from which the next call is counted: that of the ended call,
// or now if the interval has passed since, if the handler counts from the end of a call, or if a
// calendar decides.
func (h *Handler) intervalStart(c call, now time.Time) time.Time {
	if h.Every > 0 && now.Before(c.scheduledAt.Add(h.Every)) && (h.Sharp || !h.FromFirstSeen) {
		return c.scheduledAt
	}
	return now
}

// ticked notes that a scheduled call has ended.
func (m *handlerMemory) ticked(c call, now time.Time) {
	m.lastTick, m.lastScheduled = m.intervalStart(c, now), c.scheduledAt
}

// nextTick returns the next time of a timer; zero if the timer cannot fire.
func (r *run) nextTick(h *handlerMemory) time.Time {
	var at time.Time
	switch {
	case h.Every > 0 && !h.lastTick.IsZero():
		at = h.lastTick.Add(h.Every)
	case h.FromFirstSeen:
		at = h.matchedSince.Add(h.InitialDelay + h.jitterOffset(r.Stored.UID()))
	default:
		at = h.nextTime(r.Stored, latest(h.lastTick, r.memory.firstSeen))
		if h.Schedule != nil && !at.IsZero() && at.Equal(h.lastScheduled) { // The clock was set back behind it.
			at = h.nextTime(r.Stored, at)
		}
	}
	if at.IsZero() || h.Idle == 0 {
		return at
	}
	return latest(at, h.watchedSince.Add(h.Idle))
}

// notAfter returns a time, or now if the clock shows less: it was set back, and what counts from that time must not
// wait until the clock shows it again.
func notAfter(t, now time.Time) time.Time {
	if t.Round(0).After(now.Round(0)) { // Without the readings of the monotonic clock, which is not set back.
		return now
	}
	return t
}

// jitterOffset returns the offset of an object's times, so that not all objects are called at
// once. It is the same in every process.
func (h *Handler) jitterOffset(uid string) time.Duration {
	if h.Jitter <= 0 {
		return 0
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(h.Name + "/" + uid)) // Writing to a hash never fails.
	return time.Duration(float64(hash.Sum64()) / math.MaxUint64 * float64(h.Jitter))
}

// createdAt returns when an object was created; long ago if unknown.
func createdAt(o *object.Object) time.Time {
	return cmp.Or(o.Time("creationTimestamp"), time.Unix(0, 0))
}

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest returns the earlier of two times; zero counts as none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
