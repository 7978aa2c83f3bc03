package handler

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// states is what is remembered of one object between its runs. Losing it loses the previous state in requests, and
// repeats calls whose responses were not written.
type states struct {
	// firstSeen is when the object was first reconciled.
	firstSeen time.Time
	// handlers are those of the program, in its order.
	handlers []*state
	// responses are those that are not written yet, in order.
	responses []*pendingResponse
	// throttle slows down handlers of a flapping object.
	throttle throttle
	// ownVersions are the resource versions of our latest writes, which are no changes.
	ownVersions []uint64
}

// state is a handler of one object, with what the controller remembers of it.
type state struct {
	*Handler
	progress
	// applicability is nil unless the handler is conditional.
	*applicability

	// watched is the digest of the watched fields, watchedSince since when it is the same.
	watched      string
	watchedSince time.Time
	// matchedSince is when a handler that counts from then was first applicable.
	matchedSince time.Time
	// unwritten is what pending responses of the handler change in the object.
	unwritten unwritten
	// events are the unseen events of the handler.
	events []observedEvent
	// serverDigest handles changes by the API server on write: recorded is the digest in the
	// record, actual that of the stored object.
	serverDigest struct{ recorded, actual string }
	// failed is the latest error of the handler; nil after a success.
	failed *handlerFailure
	// expressionFailed means that failed is the error of the handler's Expression.
	expressionFailed bool
	// storedEntry is the entry that was last seen on the object.
	storedEntry lasthandled.Entry
	// revisionDigest is the digest of the latest state that was stored in a revision, unstorableDigest that of one
	// that could not be.
	revisionDigest, unstorableDigest string
}

// handlerFailure is the error of a handler. refused are the locations of refused writes, which
// the message may quote.
type handlerFailure struct {
	reason, message string
	fault           *failure.Fault
	refused         []record.Location
}

// progress is the part of state that a call changes.
type progress struct {
	// handled is the object as the handler last handled it; nil if unknown.
	handled *object.Object
	// firstDigest is the digest of the watched fields at first sight. It replaces an entry of
	// a handler that matches changes only.
	firstDigest string
	// attempt counts the failures of the current call.
	attempt attempt
	// editUndone means that an edit was taken back before the first run of this process: see lasthandled.Edition.
	editUndone bool
	// resumed means that the Resume handler needs no call.
	resumed bool
	// lastTick is the time from which the next scheduled call is counted.
	lastTick time.Time
	// lastScheduled is the time for which the latest scheduled call was made.
	lastScheduled time.Time
	// relatedChanged means that a related object has changed since the last settled call, and
	// relatedUnseen that no call has been made since.
	relatedChanged, relatedUnseen bool
	// pendingEntry is the entry that is not stored yet.
	pendingEntry *lasthandled.Entry
	// progressObject is the object of the basis of the progress; nil if unknown.
	progressObject *object.Object
}

// attempt counts the failures of one operation.
type attempt struct {
	reason hook.Reason
	// digest identifies the latest input: another one is called for at once. It is that after the
	// response, and digestBefore that of the call, until the response is written.
	digest, digestBefore string
	// count is the number of failures, since the time of the first. A call before due, which an
	// edit brings forward, is no retry: if it fails, it does not count.
	count int
	since time.Time
	due   time.Time
	// next is the time of the next call, and delays the number of failures of this input.
	next   time.Time
	delays int
	// requeued means that the handler did not fail but requested another call: at next, or
	// when the digest of the whole object differs from that after the run.
	requeued     bool
	objectDigest string
	// immediateRequeues is how often in a row the handler requested an immediate call.
	immediateRequeues int
}

// applicability is what a conditional handler said about one state of the object. It is kept in
// memory only: another process asks again.
type applicability struct {
	// state is the digest of the whole object for which the handler is not applicable with the
	// declined reasons.
	state    string
	declined []hook.Reason
	// matchState is the state for which applicable is the response to hook.ReasonMatch, failedState
	// one for which the handler gave up, and matchAttempt counts the failed calls.
	matchState   string
	applicable   bool
	failedState  string
	matchAttempt attempt
}

// entry returns the entry of the handler, stored or not yet.
func (m *state) entry() lasthandled.Entry {
	if m.pendingEntry != nil {
		return *m.pendingEntry
	}
	return m.storedEntry
}

// seenBy returns what a handler has seen, and what it goes back to if a pending response is dropped.
func (s *states) seenBy(h *state) []*progress {
	seen := []*progress{&h.progress}
	for _, o := range s.responses {
		if o.call.handler == h {
			seen = append(seen, &o.progressBefore)
		}
	}
	return seen
}

// succeed ends the attempt and forgets its error.
func (m *state) succeed() { m.attempt, m.failed = attempt{}, nil }

// isFor reports whether a call continues an attempt. An attempt that only the record has is for any
// call.
func (a *attempt) isFor(c call) bool { return a.reason == c.reason || a.isRestored() }

// isRestored reports whether an attempt is that of the record.
func (a *attempt) isRestored() bool { return a.reason == "" && a.count > 0 }

// hasInput reports whether a call is for the input of the latest call of an attempt.
func (a *attempt) hasInput(c call) bool {
	return a.reason == c.reason && (a.digest == c.digest || a.digestBefore == c.digest) || a.isRestored()
}

// add adds a failure and reports whether it counts.
func (a *attempt) add(c call, now time.Time) (counts bool) {
	if !a.hasInput(c) {
		a.delays = 0
	}
	a.delays++
	if now.Before(a.due) {
		return false
	}
	if a.count == 0 {
		a.since = now
	}
	a.count++
	return true
}

// failed counts a failed write and sets the time of the retry.
func (a *attempt) failed(now time.Time, random func() float64) {
	a.retry(now, func(failures int) time.Duration { return backoff(failures, firstDelay, longestDelay, random) })
}

// retry counts a failure and sets the time of the retry, which is later with each failure.
func (a *attempt) retry(now time.Time, delay func(failures int) time.Duration) {
	if a.count == 0 {
		a.since = now
	}
	a.count++
	a.next = now.Add(delay(a.count))
}

// failDaemon counts a failure of the handler's daemon, and reports whether it is not to be started again.
func (m *state) failDaemon(err error, now time.Time, random func() float64) (gaveUp bool) {
	m.attempt.retry(now, func(failures int) time.Duration { return m.delay(err, failures, random) })
	if gaveUp = hook.IsTerminal(err) || m.exhausted(m.attempt); gaveUp {
		m.attempt = attempt{}
	}
	return gaveUp
}

// unwritten is what the pending responses of a handler change in the object.
type unwritten struct {
	// patch is nil if they change nothing.
	patch map[string]any
	// watched is the digest of the watched fields once they are written.
	watched string
}

// basis is a state that a handler has seen. Calls with progress count from that of the first of them: once the handler
// is done, it is recorded, and not what other clients have changed meanwhile, which the steps before have not seen.
type basis struct {
	digest string
	// object is nil after a restart, unless the object is still in this state.
	object *object.Object
}

// with returns the basis with what the handler itself changes; the same if the object is unknown.
func (b basis) with(h *Handler, patch map[string]any) basis {
	if b.object == nil || patch == nil {
		return b
	}
	if changed := applyPatch(b.object, patch); changed != nil {
		return basis{lasthandled.Digest(h.watchedFields(changed)), changed}
	}
	return b
}

// applyPatch returns an object with a patch; nil if the result is invalid, which the server
// will report.
func applyPatch(o *object.Object, patch map[string]any) *object.Object {
	made, err := object.Encode(object.MergePatch(object.DecodeOrEmpty(o.JSON()), patch))
	if err != nil {
		return nil
	}
	return made
}

// basisOf returns the basis of a call: the object that it has, unless there is progress and another client
// has changed the object since. Events come between the calls with progress.
func (m *state) basisOf(c call) (b basis, outdated bool) {
	e := m.entry()
	former := basis{e.ProgressDigest(), m.progressObject}
	if (e.HasProgress(c.reason) || c.reason == hook.ReasonEvent && e.Progress != "") && !m.isAt(former) {
		return former, true
	}
	return basis{c.watched, c.object}, false
}

// isAt reports whether the watched fields are as a handler has seen them, or will be once its responses are written,
// of which a part may be.
func (m *state) isAt(seen basis) bool {
	return m.isStoredAs(seen.digest) ||
		m.unwritten.patch != nil && seen.with(m.Handler, m.unwritten.patch).digest == m.unwritten.watched
}

// hasChanged reports whether the watched fields are not as they were handled, or have been different meanwhile and a
// call may have done a part of the work for that: it failed, or the process ended.
func (m *state) hasChanged() bool {
	return !m.isHandled() || m.editUndone || m.attempt.reason == hook.ReasonUpdate && m.attempt.count > 0
}

// isHandled reports whether the watched fields have been handled.
func (m *state) isHandled() bool { return m.isAt(basis{m.entry().Digest, m.handled}) }

// isStoredAs reports whether the watched fields have a digest of the entry, also as the server stored
// them.
func (m *state) isStoredAs(recorded string) bool {
	return recorded == m.watched || m.serverDigest.recorded == recorded && m.serverDigest.actual == m.watched
}

// setProgress records what a response returned as progress; nil for none. It belongs to the state
// that the handler has seen in all of its calls.
func (m *state) setProgress(e *lasthandled.Entry, c call, seen basis, progress json.RawMessage) {
	e.SetProgress(progress, c.reason, seen.digest)
	if progress != nil {
		m.progressObject = seen.object
	}
}

// observe updates since when the watched fields are unchanged, and replaces a previous object
// that equals the current one.
func (m *state) observe(watched string, o *object.Object, now time.Time) {
	if m.watched != watched {
		m.watched, m.watchedSince = watched, now
	}
	e := m.entry()
	if e.Progress != "" && m.isStoredAs(e.ProgressDigest()) {
		m.progressObject = o
	}
	changesOnly := (m.When != nil || m.Expression != nil) && m.handles(hook.ReasonUpdate) && !m.handles(hook.ReasonCreate)
	switch seen := e.Digest; {
	case seen != "" && m.isStoredAs(seen):
		m.handled = o
	case seen == "" && m.firstDigest == "" && changesOnly:
		m.firstDigest, m.handled = watched, o
	}
}

// hasPending reports whether a handler has a pending response that is not among those given.
func (s *states) hasPending(h *state, but []*pendingResponse) bool {
	return slices.ContainsFunc(s.responses, func(o *pendingResponse) bool { return o.call.handler == h && !slices.Contains(but, o) })
}

// hasUnwritten reports whether a handler has a pending response to something else than an event or a timer.
func (s *states) hasUnwritten(h *state) bool {
	return slices.ContainsFunc(s.responses, func(o *pendingResponse) bool {
		return o.call.handler == h && o.call.reason != hook.ReasonEvent && o.call.reason != hook.ReasonTimer
	})
}

// removePending removes responses that need no further write.
func (s *states) removePending(these ...*pendingResponse) {
	s.responses = slices.DeleteFunc(s.responses, func(o *pendingResponse) bool { return slices.Contains(these, o) })
}

// lacksPreviousState reports whether only a revision has the previous state.
func (m *state) lacksPreviousState() bool {
	return m.KeepPreviousState && m.handled == nil && m.entry().HasRevision
}
