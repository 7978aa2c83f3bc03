package trigger

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

func (p *Pass) dueCalls(of []*State) due {
	var a due
	for _, h := range of {
		p.addHandler(&a, h)
	}
	return a
}

func (p *Pass) addHandler(a *due, h *State) {
	if h.Daemon != nil {
		return
	}
	if p.awaitsMatch(h) {
		a.waiting = append(a.waiting, h)
		if h.Conditional {
			a.next = Earliest(a.next, h.MatchAttempt.Next)
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

func (p *Pass) addCall(a *due, c Call) {
	h, now := c.Handler, p.Now()
	if settled := h.WatchedSince.Add(h.Debounce); c.Reason == hook.ReasonUpdate && settled.After(now) && !p.Dry {
		a.next = Earliest(a.next, settled)
		return
	}
	if previous := &h.Attempt; previous.isFor(c) {
		c.Attempt, c.FirstAttempt = previous.Count, previous.Since
		skipsBackoff := p.skipsBackoff(previous) || !previous.hasInput(c) || h.relatedUnseen
		c.Repeated = !skipsBackoff
		if previous.Next.After(now) && !skipsBackoff {
			a.next = Earliest(a.next, previous.Next)
			a.waiting = append(a.waiting, h)
			return
		}
	}
	if c.isChange() && p.Throttled() {
		a.next = Earliest(a.next, p.Throttle.until)
		a.waiting = append(a.waiting, h)
		return
	}
	a.Calls = append(a.Calls, c)
}

// skipsBackoff reports whether a retry is made before its delay has ended.
func (v *Observation) skipsBackoff(previous *Attempt) bool {
	changed := previous.requeued && previous.objectDigest != "" && previous.objectDigest != lasthandled.Digest(watchableFields(v.Object))
	return changed || v.RetriesCalls()
}

// changeCall returns the call that follows from a handler's entry and the current object.
func (v *Observation) changeCall(h *State) (Call, bool) {
	if v.Object.Deleting() {
		return v.deletionCall(h)
	}
	for _, reason := range changeReasons {
		c := v.callOf(h, reason)
		switch reason {
		case hook.ReasonCreate:
			c.Previous = nil
		case hook.ReasonDrift:
			c.Digest = v.OwnedDigest
		}
		if v.handlesReason(h, reason) && v.applies(reason, h) &&
			v.meets(h, reason, c.Previous, v.Object) && !v.declines(h, reason) {
			return c, true
		}
	}
	return v.callOf(h, hook.ReasonRelated), h.relatedChanged && v.meets(h, hook.ReasonRelated, h.Handled, v.Object)
}

// applies reports whether a reason applies to an object, before the handler's condition. A
// handler that gave up is called again when its input changes.
func (v *Observation) applies(reason hook.Reason, h *State) bool {
	e := h.Entry()
	// The fields are not as they were handled, or were different meanwhile and a call may have done a part of the work for
	// that: it failed, or the process ended.
	changed := !h.isAt(basis{e.Digest, h.Handled}) || h.editUndone || h.Attempt.reason == hook.ReasonUpdate && h.Attempt.Count > 0
	anew := e.Failed && (changed || h.relatedChanged || v.RetriesCalls())
	switch reason {
	case hook.ReasonCreate:
		return e.Digest == "" || (anew || e.Dropped) && !h.handles(hook.ReasonUpdate) || e.HasProgress(reason)
	case hook.ReasonUpdate:
		if e.Digest == "" {
			return h.firstDigest != "" && !h.isAt(basis{h.firstDigest, h.Handled}) && !h.mayBeCalled(hook.ReasonUpdate, v.Object)
		}
		// A handler with an update in progress must also see a revert.
		return anew || changed && !e.Failed || e.Dropped || e.InProgress != "" || e.HasProgress(reason)
	case hook.ReasonResume:
		return e.Digest != "" && !h.Resumed
	default:
		// The handler may have requested another call for a drift.
		requeued := h.Attempt.requeued && h.Attempt.reason == hook.ReasonDrift
		return e.Digest != "" && (e.OwnedDigest != "" && e.OwnedDigest != v.OwnedDigest || requeued || e.HasProgress(reason))
	}
}

func (v *Observation) deletionCall(h *State) (Call, bool) {
	e, input := h.Entry(), lasthandled.DeletionDigest(h.watched)
	settled := e.Done || e.Failed && e.Digest == input && !h.relatedChanged && !v.RetriesCalls()
	if settled || !h.handles(hook.ReasonDelete) || !h.Optional && !v.Rules.HasFinalizer(v.Object) ||
		!v.meets(h, hook.ReasonDelete, nil, v.Object) || v.declines(h, hook.ReasonDelete) {
		return Call{}, false
	}
	c := v.callOf(h, hook.ReasonDelete)
	c.Digest = input
	return c, true
}

func (v *Observation) callOf(h *State, reason hook.Reason) Call {
	return Call{Handler: h, Reason: reason, Object: v.Object, Previous: h.Handled, watched: h.watched, Digest: h.watched}
}

// isFirstSeen reports whether a handler gets its entry without a call. A Drift handler needs a digest to compare with.
func (v *Observation) isFirstSeen(h *State) bool {
	if v.Object.Deleting() || !slices.ContainsFunc(changeReasons[:], h.handles) {
		return false
	}
	e := h.Entry()
	without := e.Digest == "" && !v.handlesReason(h, hook.ReasonCreate) || e.Digest != "" && h.handles(hook.ReasonDrift) &&
		e.OwnedDigest == ""
	return without && h.mayBeCalled(h.firstReason(), v.Object)
}

func (p *Pass) recordFirstSeen() {
	for _, h := range p.Due.firstSeen {
		e := h.Entry()
		if e.Digest == "" {
			// Later writes of this run may change the object before it is observed again.
			e.Digest, e.Edition, h.Handled = h.watched, p.editionOf(h.Handler, p.Object), p.Object
		}
		if h.handles(hook.ReasonDrift) {
			e.OwnedDigest = p.OwnedDigest
		}
		h.setEntry(e)
		h.Resumed = true
	}
}

// PendingSince returns since when a call is pending, by the times in the object; zero if they do not have it.
func (v *Observation) PendingSince(c Call) time.Time {
	e := v.Recorded[c.Handler.Name]
	switch {
	case e.Attempts > 0:
		return time.Unix(e.Since, 0)
	case c.Reason == hook.ReasonCreate:
		return createdAt(c.Object)
	case c.Reason == hook.ReasonDelete:
		return c.Object.Time("deletionTimestamp")
	case c.Reason == hook.ReasonUpdate && e.InProgress != "":
		return time.Unix(e.InProgressSince, 0)
	}
	return time.Time{}
}

// TakeEvents adds the events to those that each handler has not seen: what this run does not reach, the next run does.
func (p *Pass) TakeEvents(events []Event) {
	// The watch may deliver our own write before the request returns.
	external := func(o *object.Object) bool {
		return o.UID() == p.Object.UID() && p.Rules.Selects(o) && !slices.Contains(p.ownVersions, o.Version())
	}
	for _, h := range p.Handlers {
		if !h.handles(hook.ReasonEvent) {
			continue
		}
		if !p.Managed {
			h.Events = nil
			continue
		}
		for _, e := range events {
			if e.New != nil && external(e.New) && p.meets(h, hook.ReasonEvent, e.Old, e.New) {
				h.Events = AppendEvent(h.Events, e)
			}
		}
		if n := len(h.Events); n > 1 && p.Throttled() { // One call has all of them.
			h.Events[0].New, h.Events = h.Events[n-1].New, h.Events[:1]
		}
	}
}

// EventCall returns the call for one event. The object in it may be newer than the event.
func (v *Observation) EventCall(h *State, e Event) Call {
	c := v.callOf(h, hook.ReasonEvent)
	c.Previous, c.Event = e.Old, e
	return c
}

// addTimer adds a timer call that is due. It waits for the write of a response for another reason: what a timer
// responds need not have that.
func (p *Pass) addTimer(a *due, h *State) {
	if !p.MayTick(h) || p.hasUnwritten(h) {
		return
	}
	now := p.Now()
	c := p.callOf(h, hook.ReasonTimer)
	c.Digest = ""
	if h.Attempt.reason == hook.ReasonTimer {
		c.scheduledAt = Earliest(h.Attempt.Next, now)
		p.addCall(a, c)
		return
	}
	at := p.NextTick(h)
	switch {
	case at.IsZero():
	case at.After(now) && !p.Causes.Has(queue.ReconcileRequested):
		a.next = Earliest(a.next, at)
	default:
		c.scheduledAt = Earliest(at, now)
		a.Calls = append(a.Calls, c)
	}
}
