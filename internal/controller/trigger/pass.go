// Package trigger decides which handlers are called for an object, when, and what its record stores of them.
//
// A Pass has the object, its record, the causes of the run and the clock. It returns the calls that are due, the record,
// and the time of the next run. The caller reports the result of each call and of each write. The package does no I/O:
// package handler makes the calls and the writes.
package trigger

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// NewPass returns a pass. Of an object that was not known, its record says what was handled before.
func NewPass(seen Observation, of *States) *Pass {
	p := &Pass{Observation: seen, States: of}
	for _, o := range p.Responses {
		o.Fresh = false
	}
	if p.Handlers == nil {
		p.Recorded = p.Rules.HandledStateOf(p.Object)
		p.firstSeen, p.Handlers = p.Now(), p.Rules.newHandlers(p.Recorded, p.Object)
	}
	for _, h := range p.Handlers {
		if p.Causes.Has(queue.RelatedChanged) && h.handles(hook.ReasonRelated) {
			h.relatedChanged, h.relatedUnseen = true, true // Until a call of the handler is settled, whatever its reason.
		}
	}
	return p
}

// Observe notes what is seen, at the start of a run and after its writes. It reports whether another client has removed
// the record.
func (p *Pass) Observe(o *object.Object, ownedDigest string) (recordLost bool) {
	p.Object, p.Recorded, p.OwnedDigest = o, p.Rules.HandledStateOf(o), ownedDigest
	recordLost = p.restoreState()
	digests, now := p.watchedDigests(), p.Now()
	for i, h := range p.Handlers {
		h.observe(digests[i], o, now)
		p.restoreHandled(h)
		p.noteUnwritten(h)
		p.observeTimer(h, now)
	}
	return recordLost
}

// Wrote replaces the object after a write of ours, which is no change for the handlers: of a patch, for a response or nil.
func (p *Pass) Wrote(stored *object.Object, of *Response, patch map[string]any) {
	p.Object = stored
	p.ownVersions = append(p.ownVersions, stored.Version())
	p.ownVersions = p.ownVersions[max(0, len(p.ownVersions)-MaxEvents):]
	if of == nil {
		return
	}
	of.Base = stored
	if h := of.Call.Handler; of.ChangesObject() || patch["status"] != nil && h.WatchesStatus() {
		p.changeWritten(h, patch)
	}
}

// Decide finds the calls that are due. What needs no call is recorded at once.
func (p *Pass) Decide() {
	p.Due = p.dueCalls(p.Handlers)
	p.recordFirstSeen()
	p.clearFailures()
}

// CallsOf returns the calls of one handler that are due now.
func (p *Pass) CallsOf(h *State) []Call { return p.dueCalls([]*State{h}).Calls }

// NextRun returns when to look at the object again, zero for never, and whether there are calls to make at once. The causes
// of the run have had their calls.
func (p *Pass) NextRun() (at time.Time, ready bool) {
	for _, h := range p.Handlers { // Those that requested another call get it for the object as it is written, or later.
		if a := &h.Attempt; a.requeued && a.objectDigest == "" && !p.HasPending(h, nil) {
			a.objectDigest = lasthandled.Digest(watchableFields(p.Object))
		}
	}
	p.Causes = queue.Causes{}
	calls, hasEvents := p.dueCalls(p.Handlers), false
	at = Earliest(calls.next, p.Throttle.endsAt())
	for _, h := range p.Handlers {
		at, hasEvents = Earliest(at, p.nextMatch(h)), hasEvents || len(h.Events) > 0
	}
	if hasEvents && len(calls.Calls) == 0 && p.Throttle.blocks(p.Now()) {
		return Earliest(at, p.Throttle.until), false
	}
	return at, hasEvents || len(calls.Calls) > 0
}

// clearFailures clears the errors of handlers without a pending call: the failing change was reverted.
func (p *Pass) clearFailures() {
	for _, h := range p.Handlers {
		if slices.Contains(p.failedExpressions, h) {
			continue
		}
		if h.expressionFailed {
			h.Failed, h.expressionFailed = nil, false
		}
		e := h.Entry()
		if h.Daemon != nil || h.Attempt.Count+e.Attempts == 0 && e.Progress == "" || p.Due.Includes(h) || p.HasPending(h, nil) {
			continue
		}
		h.Succeed()
		e.Attempts, e.Since = 0, 0
		e.ClearProgress()
		if e != h.Entry() {
			h.pendingEntry = &e
		}
	}
}

// NeedsFinalizer reports whether a handler needs the finalizer. It is not known while a handler that decides it fails.
func (p *Pass) NeedsFinalizer() (needed, known bool) {
	known = true
	for _, h := range p.Handlers {
		if !h.NeedsFinalizer() || !p.Rules.Selects(p.Object) {
			continue
		}
		applicable, isKnown := p.IsApplicable(h)
		if applicable {
			return true, true
		}
		known = known && isKnown
	}
	return false, known
}

// HoldsDeletion reports whether the object waits in its deletion for a Delete handler, or for what it responded.
func (p *Pass) HoldsDeletion(h *State, written *Response) bool {
	waits := h.handles(hook.ReasonDelete) && h.mayHold(hook.ReasonDelete, nil, p.Object) &&
		!p.declines(h, hook.ReasonDelete)
	return waits && (!h.Entry().Done || p.HasPending(h, written))
}

// OwnedWritten adds our own writes of owned objects to the digests in the entries. It skips handlers that have not been
// called for a drift yet.
func (p *Pass) OwnedWritten(ownedDigest string) {
	before := p.OwnedDigest
	if p.OwnedDigest = ownedDigest; ownedDigest == before {
		return
	}
	for _, h := range p.Handlers {
		if !h.handles(hook.ReasonDrift) {
			continue
		}
		for _, seen := range p.seenBy(h) {
			e := *cmp.Or(seen.pendingEntry, &h.storedEntry)
			if e.Digest == "" || e.OwnedDigest != before {
				continue
			}
			e.OwnedDigest = ownedDigest
			seen.pendingEntry = &e
			if seen.Attempt.requeued && seen.Attempt.reason == hook.ReasonDrift {
				seen.Attempt.digest = ownedDigest
			}
		}
	}
}

// Releases reports whether the object can go without its finalizer: no handler needs it, or the object is being deleted
// and all Delete handlers are done once a response is written.
func (p *Pass) Releases(written *Response) bool {
	switch {
	case !p.Rules.HasFinalizer(p.Object):
		return false
	case !p.Rules.mayNeedFinalizer(p.Object):
		return true
	case !p.Object.Deleting():
		needed, known := p.NeedsFinalizer()
		return known && !needed
	}
	return !slices.ContainsFunc(p.Handlers, func(h *State) bool { return p.HoldsDeletion(h, written) })
}

// RemainingFinalizers returns the finalizers of the object after a write of a response, and whether they differ. A daemon
// may hold the object. The finalizers of a previous controller go with the first write, but in a deletion they hold the
// object for the handlers.
func (p *Pass) RemainingFinalizers(written *Response, held bool) (names []string, differ bool) {
	names = p.Object.Finalizers()
	before := len(names)
	switch {
	case !held && p.Releases(written):
		names = p.Rules.WithoutOwnFinalizers(p.Object)
	case p.Rules.handlesObject(p.Object) && !p.Object.Deleting():
		if _, known := p.NeedsFinalizer(); known {
			names = p.Rules.withoutReplacedFinalizers(names)
		}
	}
	return names, len(names) != before
}

// nextMatch returns when hook.ReasonMatch is to be called, zero if it is not: not in a backoff, and not while the object is
// throttled. An object in deletion needs no such call: the response to hook.ReasonDelete says it.
func (p *Pass) nextMatch(h *State) time.Time {
	if !h.needsMatch() || !p.Managed || p.Object.Deleting() || !p.meets(h, h.lastReason(), nil, p.Object) {
		return time.Time{}
	}
	if state := p.State(); !p.RetriesCalls() && (h.matchState == state || h.failedState == state) {
		return time.Time{}
	}
	at := Latest(p.Now(), h.MatchAttempt.Next)
	if p.Throttle.blocks(p.Now()) && !p.Dry {
		at = Latest(at, p.Throttle.until)
	}
	return at
}

// AsksMatch reports whether hook.ReasonMatch is to be called now.
func (p *Pass) AsksMatch(h *State) bool {
	at := p.nextMatch(h)
	return !at.IsZero() && (p.RetriesCalls() || !at.After(p.Now()))
}
