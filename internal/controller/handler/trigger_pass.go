package handler

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// observation is what a pass sees: the object, and why the pass is made.
type observation struct {
	rules *rules
	// object is the object as it is stored, and recorded the record on it.
	object   *object.Object
	recorded lasthandled.Record
	// ownedDigest is the digest of the owned objects that responses applied, for programs with Drift handlers.
	ownedDigest string
	// causes are those of the run, as long as they can bring about a call.
	causes queue.Causes
	// managed means that handlers are called: the object is neither paused nor only released. dry means that
	// nothing is written.
	managed, dry bool
	// now is the clock, and random returns random numbers in [0,1).
	now    func() time.Time
	random func() float64
	// fail receives the error of a handler, once it is decided whether the handler is called again. The state is
	// nil if the error is about an event.
	fail    func(*state, error)
	digests digestCache
	// failedExpressions are the handlers whose Expression failed.
	failedExpressions []*state
}

// Pass decides, for one reconcile of one object, which handlers are called and what is recorded of them. It does no I/O:
// the caller makes the calls and the writes, and says how they ended.
type Pass struct {
	observation
	*states

	due due
	// changeCount is the number of changes: the calls of the handler with the most calls. latestChange is the latest
	// call because of a change.
	changeCount, sameHandlerCount int
	latestChange                  *call
}

// newPass returns a pass. Of an object that was not known, its record says what was handled before.
func newPass(seen observation, of *states) *Pass {
	p := &Pass{observation: seen, states: of}
	for _, o := range p.responses {
		o.fresh = false
	}
	if p.handlers == nil {
		p.recorded = p.rules.handledStateOf(p.object)
		p.firstSeen, p.handlers = p.now(), p.rules.newHandlers(p.recorded, p.object)
	}
	p.noteRelatedChange()
	return p
}

// observe notes what is seen, at the start of a run and after its writes. It reports whether another client has removed
// the record.
func (p *Pass) observe(o *object.Object, ownedDigest string) (recordLost bool) {
	p.object, p.recorded, p.ownedDigest = o, p.rules.handledStateOf(o), ownedDigest
	recordLost = p.restoreState()
	digests, now := p.watchedDigestsOf(o), p.now()
	for i, h := range p.handlers {
		h.observe(digests[i], o, now)
		p.noteUnwritten(h)
		p.observeTimer(h, now)
	}
	return recordLost
}

// wrote replaces the object after a write of ours, which is no change for the handlers.
func (p *Pass) wrote(stored *object.Object) {
	p.object = stored
	p.ownVersions = append(p.ownVersions, stored.Version())
	p.ownVersions = p.ownVersions[max(0, len(p.ownVersions)-maxEvents):]
}

// decide finds the calls that are due. What needs no call is recorded at once.
func (p *Pass) decide() {
	p.due = p.dueCalls()
	p.recordFirstSeen()
	p.clearFailures()
}

// callsOf returns the calls of one handler that are due now.
func (p *Pass) callsOf(h *state) []call {
	var now due
	p.addHandler(&now, h)
	return now.calls
}

// next returns when to look at the object again, zero for never, and whether there are calls to make at once. The causes
// of the run have had their calls.
func (p *Pass) next() (at time.Time, ready bool) {
	p.noteRequeueDigest()
	p.causes = queue.Causes{}
	calls, now := p.dueCalls(), p.now()
	at = earliest(earliest(calls.next, p.throttle.endsAt()), p.nextMatch(now))
	switch {
	case len(calls.calls) > 0:
		return at, true
	case !slices.ContainsFunc(p.handlers, func(h *state) bool { return len(h.events) > 0 }):
		return at, false
	case p.throttle.blocks(now):
		return earliest(at, p.throttle.until), false
	}
	return at, true
}

// clearFailures clears the errors of handlers without a pending call: the failing change was
// reverted.
func (p *Pass) clearFailures() {
	for _, h := range p.handlers {
		if p.clearExpressionFailure(h) {
			continue
		}
		e := h.entry()
		if h.Daemon != nil || h.attempt.count+e.Attempts == 0 && e.Progress == "" || p.due.includes(h) || p.hasPending(h, nil) {
			continue
		}
		h.succeed()
		if e.Attempts > 0 || e.Progress != "" {
			e.Attempts, e.Since = 0, 0
			e.ClearProgress()
			h.pendingEntry = &e
		}
	}
}

// noteRequeueDigest stores the digest of the written object for a handler that requested
// another call.
func (p *Pass) noteRequeueDigest() {
	for _, h := range p.handlers {
		if a := &h.attempt; a.requeued && a.objectDigest == "" && !p.hasPending(h, nil) {
			a.objectDigest = lasthandled.Digest(watchableFields(p.object))
		}
	}
}

// needsFinalizer reports whether a handler needs the finalizer. It is not known while a handler that
// decides it fails.
func (p *Pass) needsFinalizer() (needed, known bool) {
	known = true
	for _, h := range p.handlers {
		if !h.needsFinalizer() || !p.rules.selects(p.object) {
			continue
		}
		switch applicable, isKnown := p.isApplicable(h); {
		case applicable:
			return true, true
		case !isKnown:
			known = false
		}
	}
	return false, known
}

// holdsDeletion reports whether the object waits in its deletion for a Delete handler, or for what it responded.
func (p *Pass) holdsDeletion(h *state, applied []*pendingResponse) bool {
	waits := h.handles(hook.ReasonDelete) && h.matches(nil, p.object) && h.mayHold(hook.ReasonDelete, nil, p.object) &&
		!p.declines(h, hook.ReasonDelete)
	return waits && (!h.entry().Done || p.hasPending(h, applied))
}

// ownedWritten adds our own writes of owned objects to the digests in the entries. It skips handlers that have not been
// called for a drift yet.
func (p *Pass) ownedWritten(ownedDigest string) {
	before := p.ownedDigest
	if p.ownedDigest = ownedDigest; ownedDigest == before {
		return
	}
	for _, h := range p.handlers {
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
			if seen.attempt.requeued && seen.attempt.reason == hook.ReasonDrift {
				seen.attempt.digest = ownedDigest
			}
		}
	}
}

// releases reports whether the object can go without its finalizer: no handler needs it, or the object is being deleted
// and all Delete handlers are done once these responses are written.
func (p *Pass) releases(applied []*pendingResponse) bool {
	switch {
	case !p.rules.hasFinalizer(p.object):
		return false
	case !p.rules.mayNeedFinalizer(p.object):
		return true
	case !p.object.Deleting():
		needed, known := p.needsFinalizer()
		return known && !needed
	}
	return !slices.ContainsFunc(p.handlers, func(h *state) bool { return p.holdsDeletion(h, applied) })
}

// remainingFinalizers returns the finalizers of the object after a write of responses, and whether they differ. A daemon
// may hold the object. The finalizers of a former controller go with the first write, but in a deletion they hold the
// object for the handlers.
func (p *Pass) remainingFinalizers(applied []*pendingResponse, held bool) (names []string, differ bool) {
	names = p.object.Finalizers()
	before := len(names)
	switch {
	case !held && p.releases(applied):
		names = p.rules.withoutOwnFinalizers(p.object)
	case p.rules.handlesObject(p.object) && !p.object.Deleting():
		if _, known := p.needsFinalizer(); known {
			names = p.rules.withoutReplacedFinalizers(names)
		}
	}
	return names, len(names) != before
}
