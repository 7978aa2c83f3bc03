// Package trigger decides which handlers are called for an object, when, and what its record stores of them.
//
// A Pass has the object, its record, the causes of the run and the clock. It returns the calls that are due, the record,
// and the time of the next run. The caller reports the result of each call and of each write. The package does no I/O:
// package handler makes the calls and the writes.
package trigger

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Observation is what a pass sees: the object, and why the pass is made.
type Observation struct {
	Rules *Rules
	// Object is the object as it is stored, and recorded the record on it.
	Object   *object.Object
	Recorded lasthandled.Record
	// OwnedDigest is the digest of the owned objects that responses applied, for programs with Drift handlers.
	OwnedDigest string
	// Causes are those of the run, as long as they can bring about a call.
	Causes queue.Causes
	// Managed means that handlers are called: the object is neither paused nor only released. Dry means that
	// nothing is written.
	Managed, Dry bool
	// Now is the clock, and random returns random numbers in [0,1).
	Now    func() time.Time
	Random func() float64
	// Fail receives the error of a handler, once it is decided whether the handler is called again. The state is
	// nil if the error is about an event.
	Fail    func(*State, error)
	Digests digestCache
	// Unstored are the handlers whose handled states are too large for the record.
	Unstored []string
	// failedExpressions are the handlers whose Expression failed.
	failedExpressions []*State
}

// Pass decides, for one reconcile of one object, which handlers are called and what is recorded of them. It does no I/O:
// the caller makes the calls and the writes, and says how they ended.
type Pass struct {
	Observation
	*States

	Due due
	// changeCount is the number of changes: the calls of the handler with the most calls. latestChange is the latest
	// call because of a change.
	changeCount, sameHandlerCount int
	latestChange                  *Call
}

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
	p.noteRelatedChange()
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
		if p.clearExpressionFailure(h) {
			continue
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
		switch applicable, isKnown := p.IsApplicable(h); {
		case applicable:
			return true, true
		case !isKnown:
			known = false
		}
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

// RetriesCalls reports whether failed calls are retried at once, for a user or a changed hook.
func (v *Observation) RetriesCalls() bool {
	return v.Causes.HasAny(queue.ReconcileRequested, queue.HookChanged)
}

// RetriesWrites reports whether failed writes are retried at once.
func (v *Observation) RetriesWrites() bool { return v.RetriesCalls() || v.Causes.Has(queue.Retrying) }

// holds evaluates the conditions of a handler before a call, and records their error.
func (v *Observation) holds(h *State, reason hook.Reason, old, now *object.Object) bool {
	holds, err := h.Holds(reason, old, now)
	if err == nil {
		return holds
	}
	if !slices.Contains(v.failedExpressions, h) {
		v.failedExpressions = append(v.failedExpressions, h)
		h.expressionFailed = true
		v.Fail(h, failure.WithReason(ReasonExpressionFailed, fmt.Errorf("handler %s: %w", h.Name, err)))
	}
	return false
}

// clearExpressionFailure forgets the error of a handler's expression, unless it failed in this run too.
func (v *Observation) clearExpressionFailure(h *State) (failed bool) {
	failed = slices.Contains(v.failedExpressions, h)
	if h.expressionFailed && !failed {
		h.Failed, h.expressionFailed = nil, false
	}
	return failed
}

// handlesReason reports whether a handler is called for a reason that depends on its entry. An
// object of a previous controller is new to all handlers that compare with what they handled.
func (v *Observation) handlesReason(h *State, reason hook.Reason) bool {
	replaced := v.Rules.ReplacedAnnotation
	wasReplaced := replaced != "" && v.Object.Field("metadata", "annotations", replaced) != nil
	return h.handles(reason) || reason == hook.ReasonCreate && wasReplaced && slices.ContainsFunc(changeReasons[:], h.handles)
}

// isReleased reports whether the object is being deleted and does not wait for the handlers.
func (v *Observation) isReleased() bool {
	return v.Object.Deleting() && !v.Rules.HasFinalizer(v.Object)
}

func (v *Observation) watchedDigests() []string {
	if d := &v.Digests; d.object != v.Object {
		if d.object == nil || !v.Rules.differsOnlyInStatus(d.object, v.Object) {
			d.watched = v.Rules.watchedDigests(v.Object)
		}
		d.object = v.Object
	}
	return v.Digests.watched
}

// State returns the digest of the whole object: the handler may look at any part of it.
func (v *Observation) State() string {
	if d := &v.Digests; d.state == "" || d.stateOf != v.Object {
		d.stateOf, d.state = v.Object, v.Rules.stateDigest(v.Object)
	}
	return v.Digests.state
}

// declines reports whether a handler said that it is not applicable with a reason.
func (v *Observation) declines(h *State, reason hook.Reason) bool {
	return h.Conditional && slices.Contains(h.declined, reason) && h.state == v.State() && !v.RetriesCalls()
}

// IsApplicable reports whether a handler handles the object as it is. It is not known while hook.ReasonMatch fails.
func (v *Observation) IsApplicable(h *State) (applicable, known bool) {
	switch {
	case h.NeedsFinalizer() && !v.holds(h, h.lastReason(), nil, v.Object):
		return false, !slices.Contains(v.failedExpressions, h)
	case !h.needsMatch():
		return true, true
	}
	known = h.matchState == v.State() || v.Dry && h.matchState != "" // The next run would ask again after a write.
	return known && h.applicable, known
}

// awaitsMatch reports whether calls of a handler wait for hook.ReasonMatch, because the object may need the finalizer first.
func (v *Observation) awaitsMatch(h *State) bool {
	_, known := v.IsApplicable(h)
	return !known && !v.Object.Deleting() && !v.Rules.HasFinalizer(v.Object)
}

// nextMatch returns when hook.ReasonMatch is to be called, zero if it is not: not in a backoff, and not while the object is
// throttled. An object in deletion needs no such call: the response to hook.ReasonDelete says it.
func (p *Pass) nextMatch(h *State) time.Time {
	if !h.needsMatch() || !p.Managed || p.Object.Deleting() || !p.holds(h, h.lastReason(), nil, p.Object) {
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

// Matched records what a handler responded to hook.ReasonMatch for a state of the object. A failed call leaves the
// finalizer as it is.
func (v *Observation) Matched(h *State, state string, applicable bool, err error) {
	a := h.applicability
	switch {
	case err == nil:
		if a.MatchAttempt.Count > 0 {
			h.Failed = nil
		}
		a.matchState, a.applicable, a.failedState, a.MatchAttempt = state, applicable, "", Attempt{}
	case hook.IsTerminal(err):
		a.failedState, a.MatchAttempt = state, Attempt{}
		v.fail(h, ReasonGaveUp, err)
	default:
		a.MatchAttempt.retry(v.Now(), func(failures int) time.Duration { return h.Delay(err, failures, v.Random) })
		v.fail(h, FailureReason(err), err)
	}
}

func (v *Observation) fail(h *State, reason string, err error) {
	err = fmt.Errorf("handler %s: %w", h.Title(), err)
	if reason == ReasonGaveUp {
		err = fmt.Errorf("gave up: %w", err)
	}
	v.Fail(h, failure.WithReason(reason, err))
}

// digestCache has the digests of the objects that a run has seen. A version of an object never
// changes, so its digests stay valid.
type digestCache struct {
	object  *object.Object
	watched []string
	// state is the digest of the whole object stateOf.
	stateOf *object.Object
	state   string
	parts   map[*object.Object]string
}

// Owned returns a digest of the owned objects' fields that other clients could have changed,
// independent of their order.
func (d *digestCache) Owned(owned []*object.Object) string {
	parts := make([]string, 0, len(owned))
	for _, o := range owned {
		part, known := d.parts[o]
		if !known {
			part = ownedObjectDigest(o)
			if d.parts == nil {
				d.parts = map[*object.Object]string{}
			}
			d.parts[o] = part
		}
		parts = append(parts, part)
	}
	slices.Sort(parts)
	return lasthandled.Digest(parts)
}
