package trigger

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
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

// throttle slows down one flapping object.
type throttle struct {
	// spent is the used part of the burst at the last run.
	spent   float64
	lastRun time.Time
	// runs counts the runs since the throttle became active; 0 if inactive.
	runs int
	// until is when handlers are called for changes again.
	until time.Time
	// Message describes the conflict.
	Message string
}

func (s *States) pendingOf(h *State) []*Response {
	return lists.Filter(s.Responses, func(o *Response) bool { return o.Call.Handler == h })
}

// HasPending reports whether a handler has a pending response other than the given one.
func (s *States) HasPending(h *State, but *Response) bool {
	return slices.ContainsFunc(s.pendingOf(h), func(o *Response) bool { return o != but })
}

// RemovePending removes a response that needs no further write.
func (s *States) RemovePending(done *Response) {
	s.Responses = slices.DeleteFunc(s.Responses, func(o *Response) bool { return o == done })
}

// seenBy returns what a handler has seen, and what it goes back to if a pending response is dropped.
func (s *States) seenBy(h *State) []*Progress {
	before := lists.Map(s.pendingOf(h), func(o *Response) *Progress { return &o.progressBefore })
	return append(before, &h.Progress)
}

// State is a handler of one object, with what the controller remembers of it.
type State struct {
	*Handler
	Progress
	applicability

	// storedEntry is the entry that was last seen on the object.
	storedEntry lasthandled.Entry
	// known are the states of the watched fields to which entries refer, as far as their objects are known.
	known []seen
	// watched is the digest of the watched fields, WatchedSince since when it is the same.
	watched      string
	WatchedSince time.Time
	// serverDigest handles changes by the API server on write: recorded is the digest in the record, actual that of the
	// stored object.
	serverDigest struct{ recorded, actual string }
	// unstored is the digest of a handled state that was too large for the record.
	unstored string
	// matchedSince is when a handler that counts from then was first applicable.
	matchedSince time.Time
	// Events are those that the handler has not seen.
	Events []Event
	// Failed is the latest error of the handler; nil after a success. With expressionFailed, it is that of its Expression.
	Failed           *Failure
	expressionFailed bool
}

// Failure is the error of a handler. Refused are the locations of refused writes, which the message may quote.
type Failure struct {
	Reason, Message string
	Fault           *failure.Fault
	Refused         []record.Location
}

// Progress is the part of state that a call changes.
type Progress struct {
	// pendingEntry is the entry that is not stored yet.
	pendingEntry *lasthandled.Entry
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
func (m *State) Entry() lasthandled.Entry { return *cmp.Or(m.pendingEntry, &m.storedEntry) }

// setEntry makes an entry pending, unless it is known already or says nothing.
func (m *State) setEntry(e lasthandled.Entry) {
	if e != m.Entry() && e != (lasthandled.Entry{}) {
		m.pendingEntry = &e
	}
}

// Succeed ends the attempt and forgets its error.
func (m *State) Succeed() { m.Attempt, m.Failed = Attempt{}, nil }

// FailDaemon counts a failure of the handler's daemon, and reports whether it is not to be started again.
func (m *State) FailDaemon(err error, now time.Time, random func() float64) (gaveUp bool) {
	m.Attempt.retry(m.Handler, err, now, random)
	if gaveUp = hook.IsTerminal(err) || m.exhausted(m.Attempt); gaveUp {
		m.Attempt = Attempt{}
	}
	return gaveUp
}

// seen is a state of the fields that a handler watches. After a restart, the object is nil unless it is still in this
// state.
type seen struct {
	digest string
	object *object.Object
}

func (m *State) at(digest string) seen {
	if i := slices.IndexFunc(m.known, func(s seen) bool { return s.digest == digest }); i >= 0 {
		return m.known[i]
	}
	return seen{digest: digest}
}

func (m *State) remember(s seen) {
	if s.object != nil && s.digest != "" {
		m.known = append(slices.DeleteFunc(m.known, func(known seen) bool { return known.digest == s.digest }), s)
	}
}

// patched returns the state that a change by the handler itself makes of another one; the same if its object is unknown.
func (m *State) patched(s seen, patch map[string]any) seen {
	if s.object == nil || patch == nil {
		return s
	}
	changed, err := object.Encode(object.MergePatch(object.DecodeOrEmpty(s.object.JSON()), patch))
	if err != nil {
		return s // The server will report it.
	}
	return seen{lasthandled.Digest(m.WatchedFields(changed)), changed}
}

func (m *State) handled() seen {
	return m.at(cmp.Or(lasthandled.CutDeletion(m.Entry().Digest), m.firstDigest))
}

// isStoredAs reports whether the watched fields have a digest of the entry, also as the server stored them.
func (m *State) isStoredAs(recorded string) bool {
	return recorded == m.watched || m.serverDigest.recorded == recorded && m.serverDigest.actual == m.watched
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

// Call is one call of a handler for one reason.
type Call struct {
	Handler  *State
	Reason   hook.Reason
	Previous *object.Object
	Object   *object.Object
	// watched is the digest of the watched fields of the object.
	watched string
	// Digest identifies the input: the digest of the watched fields, or of the owned objects.
	Digest string
	// Attempt counts the failed calls before, the first of which was at firstAttempt.
	Attempt      int
	FirstAttempt time.Time
	// Event is the change of a hook.ReasonEvent call, scheduledAt the time of a timer call.
	Event       Event
	scheduledAt time.Time
	// Repeated means that the handler was called for the same input before.
	Repeated bool
}

// isChange reports whether a call is the first one for a change.
func (c *Call) isChange() bool {
	ofChange := []hook.Reason{
		hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift, hook.ReasonRelated, hook.ReasonEvent, hook.ReasonMatch,
	}
	return !c.Repeated && slices.Contains(ofChange, c.Reason)
}

// MaxEvents bounds the buffered events of one object. Further events are merged.
const MaxEvents = 16

// Event is a change of an object with its type.
type Event struct {
	cache.Event

	Kind hook.EventType
}

// NewEvent returns an event of a watch. A new list after an interrupted watch yields the differences
// only, so an unknown object has been added.
func NewEvent(e cache.Event) Event {
	switch {
	case e.New == nil:
		return Event{e, hook.EventDeleted}
	case e.Old == nil:
		return Event{e, hook.EventAdded}
	}
	return Event{e, hook.EventModified}
}

// AppendEvent adds an event, once. Above the limit it merges the last two, but no deletion.
func AppendEvent(list []Event, e Event) []Event {
	if len(list) == 0 || e.New == nil {
		return append(list, e)
	}
	last := &list[len(list)-1]
	switch {
	case last.New == e.New:
	case len(list) >= MaxEvents && last.New != nil:
		last.New = e.New
	default:
		return append(list, e)
	}
	return list
}

// Attempt counts the failures of one operation.
type Attempt struct {
	// Count is the number of failures, Since the time of the first, and Next that of the next call.
	Count       int
	Since, Next time.Time

	reason hook.Reason
	// digest identifies the latest input: another one is called for at once. It is that after the response, and
	// digestBefore that of the call, until the response is written. delays is the number of failures of this input.
	digest, digestBefore string
	delays               int
	// A call before due, which an edit brings forward, is no retry: if it fails, it does not count.
	due time.Time
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

func (a *Attempt) count(now time.Time) {
	if a.Count == 0 {
		a.Since = now
	}
	a.Count++
}

// Failed counts a failed write and sets the time of the retry.
func (a *Attempt) Failed(now time.Time, random func() float64) { a.retry(&Handler{}, nil, now, random) }

// retry counts a failure and sets the time of the retry, which is later with each failure.
func (a *Attempt) retry(h *Handler, err error, now time.Time, random func() float64) {
	a.count(now)
	a.Next = now.Add(h.Delay(err, a.Count, random))
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

// BackoffAfter returns the delay after one or more failures in a row. Random returns random numbers in [0,1).
func BackoffAfter(failures int, first, longest time.Duration, random func() float64) time.Duration {
	delay := longest
	if doublings := failures - 1; doublings < 32 && first<<doublings < longest {
		delay = first << doublings
	}
	return delay + time.Duration(jitter*random()*float64(delay))
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
	return BackoffAfter(failures, first, max(first, longest), random)
}

func (h *Handler) exhausted(a Attempt) bool {
	return h.Retries < 0 || h.Retries > 0 && a.Count > h.Retries || h.RetryTimeout > 0 && a.Next.Sub(a.Since) > h.RetryTimeout
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
