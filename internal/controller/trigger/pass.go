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
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// Observation is what a pass sees: the object, and why the pass is made.
type Observation struct {
	Rules *Rules
	// Object is the object as it is stored.
	Object *object.Object
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
	Fail func(*State, error)

	// Recorded is the record on the object.
	Recorded lasthandled.Record
	// failedExpressions are the handlers whose Expression failed.
	failedExpressions []*State
	// The digests of objects by what they are of: see Rules.watchedDigests, Rules.stateDigest and ownedObjectDigest.
	watchedDigests             memo[[]string]
	stateDigests, ownedDigests memo[string]
}

// Pass decides, for one reconcile of one object, which handlers are called and what is recorded of them. It does no I/O:
// the caller makes the calls and the writes, and says how they ended.
type Pass struct {
	Observation
	*States

	Due decision
	// Unstored are the handlers whose handled states are too large for the record.
	Unstored []string
	// changeCount is the number of changes: the calls of the handler with the most calls. latestChange is the latest
	// call because of a change.
	changeCount, sameHandlerCount int
	latestChange                  *Call
}

// decision has the calls to make now, and when to compute them again.
type decision struct {
	Calls []Call
	// waiting are the handlers in backoff.
	waiting []*State
	// firstSeen are the handlers that get an entry without a call: the first state that they see is no update.
	firstSeen []*State
	next      time.Time
}

func (a *decision) wait(h *State, until time.Time) {
	a.waiting, a.next = append(a.waiting, h), Earliest(a.next, until)
}

// CallsNow reports whether a handler is to be called now.
func (a *decision) CallsNow(h *State) bool {
	return slices.ContainsFunc(a.Calls, func(c Call) bool { return c.Handler == h })
}

// Includes reports whether a handler is to be called, now or later.
func (a *decision) Includes(h *State) bool { return slices.Contains(a.waiting, h) || a.CallsNow(h) }

// memo has what was computed of objects: a version of an object never changes.
type memo[T any] map[*object.Object]T

func (m *memo[T]) get(o *object.Object, compute func(*object.Object) T) T {
	if *m == nil {
		*m = memo[T]{}
	}
	if _, known := (*m)[o]; !known {
		(*m)[o] = compute(o)
	}
	return (*m)[o]
}

func (v *Observation) digestsOf(o *object.Object) []string {
	return v.watchedDigests.get(o, v.Rules.watchedDigests)
}

// RetriesCalls reports whether failed calls are retried at once, for a user or a changed hook.
func (v *Observation) RetriesCalls() bool {
	return v.Causes.HasAny(queue.ReconcileRequested, queue.HookChanged)
}

// RetriesWrites reports whether failed writes are retried at once.
func (v *Observation) RetriesWrites() bool { return v.RetriesCalls() || v.Causes.Has(queue.Retrying) }

// State returns the digest of the whole object: the handler may look at any part of it.
func (v *Observation) State() string { return v.stateDigests.get(v.Object, v.Rules.stateDigest) }

// DigestOwned returns a digest of the owned objects' fields that other clients could have changed,
// independent of their order.
func (v *Observation) DigestOwned(owned []*object.Object) string {
	return lasthandled.Digest(slices.Sorted(slices.Values(lists.Map(owned, func(o *object.Object) string {
		return v.ownedDigests.get(o, ownedObjectDigest)
	}))))
}

func (v *Observation) isReleased() bool {
	return v.Object.Deleting() && !v.Rules.HasFinalizer(v.Object)
}

// meets evaluates the conditions of a handler before a call, and records their error.
func (v *Observation) meets(h *State, reason hook.Reason, old, now *object.Object) bool {
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

func (v *Observation) declines(h *State, reason hook.Reason) bool {
	return h.Conditional && slices.Contains(h.declined, reason) && h.state == v.State() && !v.RetriesCalls()
}

// IsApplicable reports whether a handler handles the object as it is. It is not known while hook.ReasonMatch fails.
func (v *Observation) IsApplicable(h *State) (applicable, known bool) {
	switch {
	case h.NeedsFinalizer() && !v.meets(h, h.lastReason(), nil, v.Object):
		return false, !slices.Contains(v.failedExpressions, h)
	case !h.needsMatch():
		return true, true
	}
	known = h.matchState == v.State() || v.Dry && h.matchState != "" // The next run would ask again after a write.
	return known && h.applicable, known
}

// NeedsFinalizer reports whether a deletion of the object waits for a handler, and whether that is known.
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

// Releases reports whether the object can go without its finalizer: no handler needs it, or the object is being deleted
// and all Delete handlers are done once a response is written.
func (p *Pass) Releases(written *Response) bool {
	switch {
	case !p.Rules.HasFinalizer(p.Object):
		return false
	case !p.Rules.Selects(p.Object) || !slices.ContainsFunc(p.Rules.Handlers, func(h Handler) bool {
		return h.NeedsFinalizer() && h.mayHold(h.lastReason(), nil, p.Object)
	}):
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

func (v *Observation) callOf(h *State, reason hook.Reason) Call {
	return Call{Handler: h, Reason: reason, Object: v.Object, Previous: h.handled().object, watched: h.watched, Digest: h.watched}
}

// handlesReason reports whether a handler is called for a reason that depends on its entry. An
// object of a previous controller is new to all handlers that compare with what they handled.
func (v *Observation) handlesReason(h *State, reason hook.Reason) bool {
	replaced := v.Rules.ReplacedAnnotation
	wasReplaced := replaced != "" && v.Object.Field("metadata", "annotations", replaced) != nil
	return h.handles(reason) || reason == hook.ReasonCreate && wasReplaced && slices.ContainsFunc(changeReasons[:], h.handles)
}

// isAt reports whether the watched fields are as a handler has seen them, or will be once its responses are written,
// of which a part may be.
func (p *Pass) isAt(h *State, digest string) bool {
	if h.isStoredAs(digest) {
		return true
	}
	patch := patchOf(h, p.Responses...)
	return patch != nil && h.patched(h.at(digest), patch).digest == h.patched(seen{h.watched, p.Object}, patch).digest
}

// editionOf returns the edition of an object that a handler has handled: that is stored, or what a response makes of
// it. It is zero if the object is nil, which means unknown.
func (v *Observation) editionOf(h *Handler, handled *object.Object) lasthandled.Edition {
	if handled == nil || !v.Rules.countsEdits(h, handled) {
		return lasthandled.Edition{}
	}
	e := lasthandled.Edition{Generation: handled.Generation()}
	if len(h.Fields) > 0 {
		e.Counted = countedDigest(handled)
	}
	if handled != v.Object && handled.Version() == v.Object.Version() && countedDigest(handled) != countedDigest(v.Object) {
		e.Generation++ // The write of the response counts as well.
	}
	return e
}

// NewPass returns a pass. Of an object that was not known, its record says what was handled before.
func NewPass(observed Observation, of *States) *Pass {
	p := &Pass{Observation: observed, States: of}
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
	now := p.Now()
	p.firstSeen = notAfter(p.firstSeen, now)
	for i, h := range p.Handlers {
		recordLost = p.restoreEntry(h) || recordLost
		if watched := p.digestsOf(o)[i]; h.watched != watched {
			h.watched, h.WatchedSince = watched, now
		}
		p.observeTimer(h, now)
		changesOnly := (h.When != nil || h.Expression != nil) && h.handles(hook.ReasonUpdate) && !h.handles(hook.ReasonCreate)
		if changesOnly && h.Entry().Digest == "" && h.firstDigest == "" {
			h.firstDigest = h.watched
		}
		p.restoreHandled(h)
		needed := []string{h.watched}
		for _, by := range p.seenBy(h) {
			e := cmp.Or(by.pendingEntry, &h.storedEntry)
			needed = append(needed, lasthandled.CutDeletion(e.Digest), e.ProgressDigest(), by.firstDigest)
		}
		h.known = slices.DeleteFunc(h.known, func(s seen) bool { return !slices.Contains(needed, s.digest) })
		for _, digest := range needed {
			if h.isStoredAs(digest) {
				h.remember(seen{digest, o})
			}
		}
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
	if p.Throttle.until.After(p.Now()) && !p.Dry {
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
	a := &h.applicability
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
		a.MatchAttempt.retry(h.Handler, err, v.Now(), v.Random)
		v.fail(h, FailureReason(err), err)
	}
}

// Decide finds the calls that are due. What needs no call is recorded at once.
func (p *Pass) Decide() {
	p.Due = p.dueCalls(p.Handlers)
	for _, h := range p.Due.firstSeen {
		e := h.Entry()
		if e.Digest == "" {
			// Later writes of this run may change the object before it is observed again.
			e.Digest, e.Edition = h.watched, p.editionOf(h.Handler, p.Object)
		}
		if h.handles(hook.ReasonDrift) {
			e.OwnedDigest = p.OwnedDigest
		}
		h.setEntry(e)
		h.Resumed = true
	}
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
	if hasEvents && len(calls.Calls) == 0 && p.Throttle.until.After(p.Now()) {
		return Earliest(at, p.Throttle.until), false
	}
	return at, hasEvents || len(calls.Calls) > 0
}

func (p *Pass) dueCalls(of []*State) (a decision) {
	for _, h := range of {
		if h.Daemon != nil {
			continue
		}
		// Its calls wait for hook.ReasonMatch, because the object may need the finalizer first.
		if _, known := p.IsApplicable(h); !known && !p.Object.Deleting() && !p.Rules.HasFinalizer(p.Object) {
			a.wait(h, h.MatchAttempt.Next)
			continue
		}
		if c, is := p.changeCall(h); is {
			p.addCall(&a, c)
			continue
		}
		if p.isFirstSeen(h) {
			a.firstSeen = append(a.firstSeen, h)
		}
		p.addTimer(&a, h)
	}
	return a
}

func (p *Pass) addCall(a *decision, c Call) {
	h, now := c.Handler, p.Now()
	if settled := h.WatchedSince.Add(h.Debounce); c.Reason == hook.ReasonUpdate && settled.After(now) && !p.Dry {
		a.next = Earliest(a.next, settled)
		return
	}
	if previous := &h.Attempt; previous.isFor(c) {
		c.Attempt, c.FirstAttempt = previous.Count, previous.Since
		changed := previous.requeued && previous.objectDigest != "" &&
			previous.objectDigest != lasthandled.Digest(watchableFields(p.Object))
		c.Repeated = !changed && !p.RetriesCalls() && previous.hasInput(c) && !h.relatedUnseen
		if previous.Next.After(now) && c.Repeated {
			a.wait(h, previous.Next)
			return
		}
	}
	if c.isChange() && p.Throttled() {
		a.wait(h, p.Throttle.until)
		return
	}
	a.Calls = append(a.Calls, c)
}

// addTimer adds a timer call that is due. It waits for the write of a response for another reason: what a timer
// responds need not have that.
func (p *Pass) addTimer(a *decision, h *State) {
	isOther := func(o *Response) bool { return o.Call.Reason != hook.ReasonEvent && o.Call.Reason != hook.ReasonTimer }
	if !p.MayTick(h) || slices.ContainsFunc(p.pendingOf(h), isOther) {
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

func (p *Pass) changeCall(h *State) (Call, bool) {
	if p.Object.Deleting() {
		return p.deletionCall(h)
	}
	for _, reason := range changeReasons {
		c := p.callOf(h, reason)
		switch reason {
		case hook.ReasonCreate:
			c.Previous = nil
		case hook.ReasonDrift:
			c.Digest = p.OwnedDigest
		}
		if p.handlesReason(h, reason) && p.applies(reason, h) &&
			p.meets(h, reason, c.Previous, p.Object) && !p.declines(h, reason) {
			return c, true
		}
	}
	c := p.callOf(h, hook.ReasonRelated)
	return c, h.relatedChanged && p.meets(h, c.Reason, c.Previous, p.Object)
}

// applies reports whether a reason applies to an object, before the handler's condition. A
// handler that gave up is called again when its input changes.
func (p *Pass) applies(reason hook.Reason, h *State) bool {
	e := h.Entry()
	// The fields are not as they were handled, or were different meanwhile and a call may have done a part of the work for
	// that: it failed, or the process ended.
	changed := !p.isAt(h, e.Digest) || h.editUndone || h.Attempt.reason == hook.ReasonUpdate && h.Attempt.Count > 0
	anew := e.Failed && (changed || h.relatedChanged || p.RetriesCalls())
	switch reason {
	case hook.ReasonCreate:
		return e.Digest == "" || (anew || e.Dropped) && !h.handles(hook.ReasonUpdate) || e.HasProgress(reason)
	case hook.ReasonUpdate:
		if e.Digest == "" {
			return h.firstDigest != "" && !p.isAt(h, h.firstDigest) && !h.mayBeCalled(hook.ReasonUpdate, p.Object)
		}
		// A handler with an update in progress must also see a revert.
		return anew || changed && !e.Failed || e.Dropped || e.InProgress != "" || e.HasProgress(reason)
	case hook.ReasonResume:
		return e.Digest != "" && !h.Resumed
	default:
		// The handler may have requested another call for a drift.
		requeued := h.Attempt.requeued && h.Attempt.reason == hook.ReasonDrift
		return e.Digest != "" && (e.OwnedDigest != "" && e.OwnedDigest != p.OwnedDigest || requeued || e.HasProgress(reason))
	}
}

func (v *Observation) deletionCall(h *State) (Call, bool) {
	e, c := h.Entry(), v.callOf(h, hook.ReasonDelete)
	c.Digest = lasthandled.DeletionDigest(h.watched)
	settled := e.Done || e.Failed && e.Digest == c.Digest && !h.relatedChanged && !v.RetriesCalls()
	waits := h.Optional || v.Rules.HasFinalizer(v.Object)
	return c, !settled && h.handles(c.Reason) && waits && v.meets(h, c.Reason, nil, v.Object) && !v.declines(h, c.Reason)
}

// isFirstSeen reports whether a handler gets its entry without a call. A Drift handler needs a digest to compare with.
func (v *Observation) isFirstSeen(h *State) bool {
	first := slices.IndexFunc(changeReasons[:], h.handles)
	if v.Object.Deleting() || first < 0 {
		return false
	}
	e := h.Entry()
	without := e.Digest == "" && !v.handlesReason(h, hook.ReasonCreate) || e.Digest != "" && h.handles(hook.ReasonDrift) &&
		e.OwnedDigest == ""
	return without && h.mayBeCalled(changeReasons[first], v.Object)
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
		if e != h.Entry() { // Nothing may be left of it.
			h.pendingEntry = &e
		}
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
