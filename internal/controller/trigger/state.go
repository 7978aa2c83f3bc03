package trigger

import (
	"cmp"
	"encoding/json"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// States is what is remembered of one object between its runs. Losing it loses the previous state in requests, and
// repeats calls whose responses were not written.
type States struct {
	// firstSeen is when the object was first reconciled.
	firstSeen time.Time
	// Handlers are those of the program, in its order.
	Handlers []*State
	// Responses are those that are not written yet, in order.
	Responses []*Response
	// Throttle slows down handlers of a flapping object.
	Throttle throttle
	// ownVersions are the resource versions of our latest writes, which are no changes.
	ownVersions []uint64
}

// State is a handler of one object, with what the controller remembers of it.
type State struct {
	*Handler
	Progress
	// applicability is nil unless the handler is conditional.
	*applicability

	// watched is the digest of the watched fields, WatchedSince since when it is the same.
	watched      string
	WatchedSince time.Time
	// matchedSince is when a handler that counts from then was first applicable.
	matchedSince time.Time
	// unwritten is what pending responses change in the object, and the digest of the watched fields after that.
	unwritten unwritten
	// Events are those that the handler has not seen.
	Events []Event
	// serverDigest handles changes by the API server on write: recorded is the digest in the record, actual that of the
	// stored object.
	serverDigest struct{ recorded, actual string }
	// Failed is the latest error of the handler; nil after a success. With expressionFailed, it is that of its Expression.
	Failed           *Failure
	expressionFailed bool
	// storedEntry is the entry that was last seen on the object.
	storedEntry lasthandled.Entry
	// unstored is the digest of a handled state that was too large for the record.
	unstored string
}

// Failure is the error of a handler. Refused are the locations of refused writes, which the message may quote.
type Failure struct {
	Reason, Message string
	Fault           *failure.Fault
	Refused         []record.Location
}

// Progress is the part of state that a call changes.
type Progress struct {
	// Handled is the object as the handler last handled it; nil if unknown.
	Handled *object.Object
	// firstDigest is that of the watched fields at first sight. It replaces the entry of a handler that matches changes only.
	firstDigest string
	// Attempt counts the failures of the current call.
	Attempt Attempt
	// editUndone means that an edit was taken back before the first run of this process: see lasthandled.Edition.
	editUndone bool
	// Resumed means that the Resume handler needs no call.
	Resumed bool
	// lastTick is the time from which the next scheduled call is counted, lastScheduled that of the latest one.
	lastTick, lastScheduled time.Time
	// relatedChanged means that a related object has changed since the last settled call, and relatedUnseen that no call
	// has been made since.
	relatedChanged, relatedUnseen bool
	// pendingEntry is the entry that is not stored yet.
	pendingEntry *lasthandled.Entry
	// progressObject is the object of the basis of the progress; nil if unknown.
	progressObject *object.Object
}

// applicability is what a conditional handler said about one state of the object. Another process asks again.
type applicability struct {
	// state is the digest of the whole object for which the handler is not applicable with the declined reasons.
	state    string
	declined []hook.Reason
	// matchState is the state for which applicable is the response to hook.ReasonMatch, failedState one for which the
	// handler gave up, and MatchAttempt counts the failed calls.
	matchState   string
	applicable   bool
	failedState  string
	MatchAttempt Attempt
}

// Entry returns the entry of the handler, stored or not yet.
func (m *State) Entry() lasthandled.Entry {
	if m.pendingEntry != nil {
		return *m.pendingEntry
	}
	return m.storedEntry
}

// setEntry makes an entry pending, unless it is known already or says nothing.
func (m *State) setEntry(e lasthandled.Entry) {
	if e != m.Entry() && e != (lasthandled.Entry{}) {
		m.pendingEntry = &e
	}
}

// seenBy returns what a handler has seen, and what it goes back to if a pending response is dropped.
func (s *States) seenBy(h *State) []*Progress {
	before := lists.Map(s.pendingOf(h), func(o *Response) *Progress { return &o.progressBefore })
	return append(before, &h.Progress)
}

func (s *States) pendingOf(h *State) []*Response {
	return lists.Filter(s.Responses, func(o *Response) bool { return o.Call.Handler == h })
}

// Succeed ends the attempt and forgets its error.
func (m *State) Succeed() { m.Attempt, m.Failed = Attempt{}, nil }

// FailDaemon counts a failure of the handler's daemon, and reports whether it is not to be started again.
func (m *State) FailDaemon(err error, now time.Time, random func() float64) (gaveUp bool) {
	m.Attempt.retry(now, func(failures int) time.Duration { return m.Delay(err, failures, random) })
	if gaveUp = hook.IsTerminal(err) || m.exhausted(m.Attempt); gaveUp {
		m.Attempt = Attempt{}
	}
	return gaveUp
}

// unwritten is a change that is not stored yet: its patch, nil for none, and the digest of the watched fields after it.
type unwritten struct {
	patch   map[string]any
	watched string
}

// basisOf returns the basis of a call: the object that it has, unless there is progress and another client
// has changed the object since. Events come between the calls with progress.
func (m *State) basisOf(c Call) (b basis, outdated bool) {
	e := m.Entry()
	previous := basis{e.ProgressDigest(), m.progressObject}
	if (e.HasProgress(c.Reason) || c.Reason == hook.ReasonEvent && e.Progress != "") && !m.isAt(previous) {
		return previous, true
	}
	return basis{c.watched, c.Object}, false
}

// isAt reports whether the watched fields are as a handler has seen them, or will be once its responses are written,
// of which a part may be.
func (m *State) isAt(seen basis) bool {
	return m.isStoredAs(seen.Digest) ||
		m.unwritten.patch != nil && seen.with(m.Handler, m.unwritten.patch).Digest == m.unwritten.watched
}

// isStoredAs reports whether the watched fields have a digest of the entry, also as the server stored them.
func (m *State) isStoredAs(recorded string) bool {
	return recorded == m.watched || m.serverDigest.recorded == recorded && m.serverDigest.actual == m.watched
}

// setProgress records what a response returned as progress; nil for none. It belongs to the state that the handler has seen
// in all of its calls.
func (m *State) setProgress(e *lasthandled.Entry, c Call, seen basis, progress json.RawMessage) {
	e.SetProgress(progress, c.Reason, seen.Digest)
	if e.Progress != "" {
		m.progressObject = seen.object
	}
}

// observe updates since when the watched fields are unchanged, and replaces a previous object that equals the current one.
func (m *State) observe(watched string, o *object.Object, now time.Time) {
	if m.watched != watched {
		m.watched, m.WatchedSince = watched, now
	}
	e := m.Entry()
	if e.Progress != "" && m.isStoredAs(e.ProgressDigest()) {
		m.progressObject = o
	}
	changesOnly := (m.When != nil || m.Expression != nil) && m.handles(hook.ReasonUpdate) && !m.handles(hook.ReasonCreate)
	switch seen := e.Digest; {
	case seen != "" && m.isStoredAs(seen):
		m.Handled = o
	case seen == "" && m.firstDigest == "" && changesOnly:
		m.firstDigest, m.Handled = watched, o
	}
}

// HasPending reports whether a handler has a pending response other than the given one.
func (s *States) HasPending(h *State, but *Response) bool {
	return slices.ContainsFunc(s.pendingOf(h), func(o *Response) bool { return o != but })
}

// hasUnwritten reports whether a handler has a pending response to something else than an event or a timer.
func (s *States) hasUnwritten(h *State) bool {
	return slices.ContainsFunc(s.pendingOf(h), func(o *Response) bool {
		return o.Call.Reason != hook.ReasonEvent && o.Call.Reason != hook.ReasonTimer
	})
}

// RemovePending removes a response that needs no further write.
func (s *States) RemovePending(done *Response) {
	s.Responses = slices.DeleteFunc(s.Responses, func(o *Response) bool { return o == done })
}

// Response is a response that is not completely written yet.
type Response struct {
	Call     Call
	Response *hook.HandlerResponse
	// Targets are the objects to delete, once they are Resolved: a replacement of the same name survives.
	Targets  []Target
	Resolved bool
	// AppliedCount is the number of applied objects. Applied means that only the object itself remains to be written.
	AppliedCount int
	Applied      bool
	Attempt      Attempt
	// Fresh means that the response is of this run.
	Fresh bool
	// Base is the object that the handler saw, with our writes of the response since. progressBefore is the progress
	// before the call, for another call, and ownedBefore the digest of the owned objects in the entry.
	Base           *object.Object
	progressBefore Progress
	ownedBefore    string
	// Failed is the error that the handler returned beside the response; usually nil.
	Failed *Failure
}

// Target is one object to delete.
type Target struct {
	Resource object.Resource
	Object   *object.Object
	Evict    bool
	// Selector is that of the response which matches the object; empty for a deletion by name.
	Selector string
}

// ChangesObject reports whether the response changes the object itself.
func (o *Response) ChangesObject() bool {
	a := o.Response
	return a.Patch != nil || a.Status != nil || len(a.Conditions) > 0 || a.Message != ""
}

// Writes reports whether the response asks for more than to be repeated.
func (o *Response) Writes() bool {
	a := o.Response
	return o.ChangesObject() || len(a.Apply)+len(a.Delete)+len(a.Events) > 0
}

// responsePatch returns what a response changes in the object, with or without the status; nil for nothing.
func responsePatch(a *hook.HandlerResponse, status bool) (patch map[string]any) {
	if a.Patch != nil {
		patch = object.DecodeOrEmpty(a.Patch)
	}
	if status && a.Status != nil {
		patch = object.CombinePatches(patch, map[string]any{"status": object.DecodeOrEmpty(a.Status)})
	}
	return patch
}

// patchOf returns what those of the responses that are a handler's change in the object; nil if nothing.
func patchOf(h *State, responses ...*Response) (patch map[string]any) {
	for _, o := range responses {
		if o == nil || o.Call.Handler != h {
			continue
		}
		if change := responsePatch(o.Response, h.WatchesStatus()); change != nil {
			patch = object.CombinePatches(patch, change)
		}
	}
	return patch
}

// basis is a state that a handler has seen. Calls with progress count from that of the first of them: once the handler
// is done, it is recorded, and not what other clients have changed meanwhile, which the steps before have not seen.
type basis struct {
	Digest string
	// object is nil after a restart, unless the object is still in this state.
	object *object.Object
}

// with returns the basis with what the handler itself changes; the same if the object is unknown.
func (b basis) with(h *Handler, patch map[string]any) basis {
	if b.object == nil || patch == nil {
		return b
	}
	changed, err := object.Encode(object.MergePatch(object.DecodeOrEmpty(b.object.JSON()), patch))
	if err != nil {
		return b // The server will report it.
	}
	return basis{lasthandled.Digest(h.WatchedFields(changed)), changed}
}

// FailureReason returns the reason of a handler's failure.
func FailureReason(err error) string {
	if hook.IsMalformed(err) {
		return ReasonInvalidResponse
	}
	return ReasonHandlerFailed
}

// Attempt counts the failures of one operation.
type Attempt struct {
	reason hook.Reason
	// digest identifies the latest input: another one is called for at once. It is that after the response, and
	// digestBefore that of the call, until the response is written.
	digest, digestBefore string
	// Count is the number of failures, Since the time of the first. A call before due, which an edit brings forward, is no
	// retry: if it fails, it does not count.
	Count      int
	Since, due time.Time
	// Next is the time of the next call, and delays the number of failures of this input.
	Next   time.Time
	delays int
	// requeued means that the handler did not fail but requested another call: at Next, or when the digest of the whole
	// object differs from that after the run. immediateRequeues is how often in a row it requested one at once.
	requeued          bool
	objectDigest      string
	immediateRequeues int
}

// isFor reports whether a call continues an attempt. One that only the record has, without a reason, is for any call.
func (a *Attempt) isFor(c Call) bool { return a.reason == c.Reason || a.reason == "" && a.Count > 0 }

// hasInput reports whether a call is for the input of the latest call of an attempt.
func (a *Attempt) hasInput(c Call) bool {
	return a.isFor(c) && (a.reason == "" || a.digest == c.Digest || a.digestBefore == c.Digest)
}

// add adds a failure and reports whether it counts.
func (a *Attempt) add(c Call, now time.Time) (counts bool) {
	if !a.hasInput(c) {
		a.delays = 0
	}
	a.delays++
	if now.Before(a.due) {
		return false
	}
	if a.Count == 0 {
		a.Since = now
	}
	a.Count++
	return true
}

// Failed counts a failed write and sets the time of the retry.
func (a *Attempt) Failed(now time.Time, random func() float64) {
	a.retry(now, func(failures int) time.Duration { return Backoff(failures, FirstDelay, LongestDelay, random) })
}

// retry counts a failure and sets the time of the retry, which is later with each failure.
func (a *Attempt) retry(now time.Time, delay func(failures int) time.Duration) {
	if a.Count == 0 {
		a.Since = now
	}
	a.Count++
	a.Next = now.Add(delay(a.Count))
}

// The first and the maximum delay between attempts, unless a handler sets its own. UnreachableDelay replaces LongestDelay
// without a connection: such a call costs little, and only a call finds out that the hook is back.
const (
	FirstDelay       = time.Second
	LongestDelay     = 5 * time.Minute
	UnreachableDelay = 15 * time.Second
)

// jitter is the maximum random extension of a delay, so that objects that failed together do not retry together.
const jitter = 0.25

// Backoff returns the delay after one or more failures in a row. Random returns random numbers in [0,1).
func Backoff(failures int, first, longest time.Duration, random func() float64) time.Duration {
	delay := longest
	if doublings := failures - 1; doublings < 32 && first<<doublings < longest {
		delay = first << doublings
	}
	return delay + time.Duration(jitter*random()*float64(delay))
}

// Latest returns the latest time.
func Latest(times ...time.Time) time.Time { return slices.MaxFunc(times, time.Time.Compare) }

// Earliest returns the earliest time that is not zero; zero if there is none.
func Earliest(times ...time.Time) (first time.Time) {
	for _, t := range times {
		if first.IsZero() || !t.IsZero() && t.Before(first) {
			first = t
		}
	}
	return first
}

// Delay returns how long a handler waits after a failure.
func (h *Handler) Delay(err error, failures int, random func() float64) time.Duration {
	if requested, _ := hook.RetryDelay(err); requested > 0 {
		return requested
	}
	first, longest := cmp.Or(h.Backoff, FirstDelay), cmp.Or(h.MaxBackoff, LongestDelay)
	if hook.IsUnconnected(err) && longest == LongestDelay {
		longest = UnreachableDelay
	}
	return Backoff(failures, first, max(first, longest), random)
}

func (h *Handler) exhausted(a Attempt) bool {
	return h.Retries < 0 || h.Retries > 0 && a.Count > h.Retries || h.RetryTimeout > 0 && a.Next.Sub(a.Since) > h.RetryTimeout
}
