package handler

import (
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

type calls []call

// includes reports whether a handler has a call.
func (all calls) includes(h *state) bool {
	return slices.ContainsFunc(all, func(c call) bool { return c.handler == h })
}

// due has the calls to make now, and when to compute them again.
type due struct {
	calls calls
	// waiting are the handlers in backoff.
	waiting []*state
	// firstSeen are the handlers that get an entry without a call: the first state that they
	// see is no update.
	firstSeen []*state
	next      time.Time
}

// includes reports whether a handler is to be called, now or later.
func (a *due) includes(h *state) bool {
	return slices.Contains(a.waiting, h) || a.calls.includes(h)
}

// due returns the pending calls for the object.
func (p *Pass) dueCalls() due {
	var a due
	for _, h := range p.handlers {
		p.addHandler(&a, h)
	}
	return a
}

// addHandler adds the pending calls of one handler.
func (p *Pass) addHandler(a *due, h *state) {
	if h.Daemon != nil {
		return
	}
	if p.awaitsMatch(h) {
		a.waiting = append(a.waiting, h)
		if h.Conditional {
			a.next = earliest(a.next, h.matchAttempt.next)
		}
		return
	}
	if c, is := p.changeCall(h); is {
		p.addCall(a, c)
		return
	}
	if p.isFirstSeen(h) {
		a.firstSeen = append(a.firstSeen, h)
	}
	p.addTimer(a, h)
}

// addCall adds a call, unless the handler is in backoff.
func (p *Pass) addCall(a *due, c call) {
	h, now := c.handler, p.now()
	if settled := h.watchedSince.Add(h.Debounce); c.reason == hook.ReasonUpdate && settled.After(now) && !p.dry {
		a.next = earliest(a.next, settled)
		return
	}
	if former := &h.attempt; former.isFor(c) {
		c.attempt, c.firstAttempt = former.count, former.since
		skipsBackoff := p.skipsBackoff(former) || !former.hasInput(c) || h.relatedUnseen
		c.repeated = !skipsBackoff
		if former.next.After(now) && !skipsBackoff {
			a.next = earliest(a.next, former.next)
			a.waiting = append(a.waiting, h)
			return
		}
	}
	if c.isChange() && p.throttled() {
		a.next = earliest(a.next, p.throttle.until)
		a.waiting = append(a.waiting, h)
		return
	}
	a.calls = append(a.calls, c)
}

// skipsBackoff reports whether a retry is made before its delay has ended.
func (v *observation) skipsBackoff(former *attempt) bool {
	changed := former.requeued && former.objectDigest != "" && former.objectDigest != lasthandled.Digest(watchableFields(v.object))
	return changed || v.retriesCalls()
}

// changeCall returns the call that follows from a handler's entry and the current object.
func (v *observation) changeCall(h *state) (call, bool) {
	if v.object.Deleting() {
		return v.deletionCall(h)
	}
	for _, reason := range changeReasons {
		c := call{handler: h, reason: reason, object: v.object, watched: h.watched, digest: h.watched, previous: h.handled}
		switch reason {
		case hook.ReasonCreate:
			c.previous = nil
		case hook.ReasonDrift:
			c.digest = v.ownedDigest
		}
		if v.handlesReason(h, reason) && v.applies(reason, h) && h.matches(c.previous, v.object) &&
			v.holds(h, reason, c.previous, v.object) && !v.declines(h, reason) {
			return c, true
		}
	}
	related := call{handler: h, reason: hook.ReasonRelated, object: v.object, watched: h.watched, digest: h.watched, previous: h.handled}
	return related, h.relatedChanged && h.matches(h.handled, v.object)
}

// handlesReason reports whether a handler is called for a reason that depends on its entry. An
// object of a former controller is new to all handlers that compare with what they handled.
func (v *observation) handlesReason(h *state, reason hook.Reason) bool {
	return h.handles(reason) || reason == hook.ReasonCreate && v.wasReplaced() && slices.ContainsFunc(changeReasons[:], h.handles)
}

// wasReplaced reports whether a former controller has handled the object.
func (v *observation) wasReplaced() bool {
	return v.rules.ReplacedAnnotation != "" && v.object.Field("metadata", "annotations", v.rules.ReplacedAnnotation) != nil
}

// applies reports whether a reason applies to an object, before the handler's condition. A
// handler that gave up is called again when its input changes.
func (v *observation) applies(reason hook.Reason, h *state) bool {
	e, changed := h.entry(), h.hasChanged()
	anew := e.Failed && (changed || h.relatedChanged || v.retriesCalls())
	switch reason {
	case hook.ReasonCreate:
		return e.Digest == "" || (anew || e.Dropped) && !h.handles(hook.ReasonUpdate) || e.HasProgress(reason)
	case hook.ReasonUpdate:
		if e.Digest == "" {
			return h.firstDigest != "" && !h.isAt(basis{h.firstDigest, h.handled}) && !h.mayBeCalled(hook.ReasonUpdate, v.object)
		}
		// A handler with an update in progress must also see a revert.
		return anew || changed && !e.Failed || e.Dropped || e.InProgress != "" || e.HasProgress(reason)
	case hook.ReasonResume:
		return e.Digest != "" && !h.resumed
	default:
		// The handler may have requested another call for a drift.
		requeued := h.attempt.requeued && h.attempt.reason == hook.ReasonDrift
		return e.Digest != "" && (e.OwnedDigest != "" && e.OwnedDigest != v.ownedDigest || requeued || e.HasProgress(reason))
	}
}

// deletionCall returns the call of a Delete handler.
func (v *observation) deletionCall(h *state) (call, bool) {
	e, input := h.entry(), lasthandled.DeletionDigest(h.watched)
	settled := e.Done || e.Failed && e.Digest == input && !h.relatedChanged && !v.retriesCalls()
	if settled || !h.handles(hook.ReasonDelete) || !h.Optional && !v.rules.hasFinalizer(v.object) || !h.matches(nil, v.object) ||
		!v.holds(h, hook.ReasonDelete, nil, v.object) || v.declines(h, hook.ReasonDelete) {
		return call{}, false
	}
	return call{handler: h, reason: hook.ReasonDelete, object: v.object, watched: h.watched, digest: input, previous: h.handled}, true
}

// isFirstSeen reports whether a handler gets its entry without a call. A Drift handler needs a
// digest to compare with.
func (v *observation) isFirstSeen(h *state) bool {
	if v.object.Deleting() || !slices.ContainsFunc(changeReasons[:], h.handles) {
		return false
	}
	e := h.entry()
	without := e.Digest == "" && !v.handlesReason(h, hook.ReasonCreate) || e.Digest != "" && h.handles(hook.ReasonDrift) &&
		e.OwnedDigest == ""
	return without && h.mayBeCalled(h.firstReason(), v.object)
}

// recordFirstSeen adds the entries that need no call.
func (p *Pass) recordFirstSeen() {
	for _, h := range p.due.firstSeen {
		e := h.entry()
		if e.Digest == "" {
			// Later writes of this run may change the object before it is observed again.
			e.Digest, e.Edition, h.handled = h.watched, p.editionOf(h.Handler, p.object), p.object
		}
		if h.handles(hook.ReasonDrift) {
			e.OwnedDigest = p.ownedDigest
		}
		h.pendingEntry, h.resumed = &e, true
	}
}

// holds evaluates the expression of a handler before a call, and records its error.
func (v *observation) holds(h *state, reason hook.Reason, old, now *object.Object) bool {
	holds, err := h.holds(reason, old, now)
	if err == nil {
		return holds
	}
	if !slices.Contains(v.failedExpressions, h) {
		v.failedExpressions = append(v.failedExpressions, h)
		h.expressionFailed = true
		v.fail(h, failure.WithReason(ReasonExpressionFailed, fmt.Errorf("handler %s: %w", h.Name, err)))
	}
	return false
}

// clearExpressionFailure forgets the error of a handler's expression, unless it failed in this run too.
func (v *observation) clearExpressionFailure(h *state) (failed bool) {
	failed = slices.Contains(v.failedExpressions, h)
	if h.expressionFailed && !failed {
		h.failed, h.expressionFailed = nil, false
	}
	return failed
}

// noteRelatedChange notes a change of a related object for the handlers. It stays pending until
// a call of the handler is settled, whatever its reason.
func (p *Pass) noteRelatedChange() {
	if !p.causes.Has(queue.RelatedChanged) {
		return
	}
	for _, h := range p.handlers {
		if h.handles(hook.ReasonRelated) {
			h.relatedChanged, h.relatedUnseen = true, true
		}
	}
}

// retriesCalls reports whether failed calls are retried at once, for a user or a changed hook.
func (v *observation) retriesCalls() bool {
	return v.causes.Has(queue.ReconcileRequested) || v.causes.Has(queue.HookChanged)
}

// retriesWrites reports whether failed writes are retried at once.
func (v *observation) retriesWrites() bool { return v.retriesCalls() || v.causes.Has(queue.Retrying) }

// pendingSince returns since when a call is pending, by the times in the object; zero if they
// do not have it.
func (v *observation) pendingSince(c call) time.Time {
	e := v.recorded[c.handler.Name]
	switch {
	case e.Attempts > 0:
		return time.Unix(e.Since, 0)
	case c.reason == hook.ReasonCreate:
		return createdAt(c.object)
	case c.reason == hook.ReasonDelete:
		return c.object.Time("deletionTimestamp")
	case c.reason == hook.ReasonUpdate && e.InProgress != "":
		return time.Unix(e.InProgressSince, 0)
	}
	return time.Time{}
}
