package trigger

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// Begin notes that a call is about to be made, and returns its response, which Complete fills. It drops the pending
// responses that the call is newer than.
func (p *Pass) Begin(c Call) *Response {
	h := c.Handler
	p.CountChange(c)
	for _, o := range p.pendingOf(h) {
		// An event is a matter of its own, and a timer says nothing about a change.
		ofEvent := c.Reason == hook.ReasonEvent || o.Call.Reason == hook.ReasonEvent
		if ofEvent || c.Reason == hook.ReasonTimer && o.Call.Reason != hook.ReasonTimer {
			continue
		}
		p.RemovePending(o)
		e := h.Entry()
		switch o.Call.Reason {
		case hook.ReasonCreate, hook.ReasonUpdate:
			e.Dropped = o.Response.Err == nil && o.Response.RetryAfter <= 0
		case hook.ReasonDrift:
			e.OwnedDigest = o.ownedBefore
		}
		h.setEntry(e)
	}
	o := &Response{Call: c, Fresh: true, Base: p.Object, progressBefore: h.Progress}
	h.relatedUnseen = h.relatedUnseen && c.Reason == hook.ReasonEvent
	return o
}

// Complete records how a call ended: with an error, or with a response that is to be written.
func (p *Pass) Complete(o *Response, response *hook.HandlerResponse, err error) {
	switch o.Response = response; {
	case err != nil:
		p.handlerFailed(o.Call, o.Call.Digest, err)
	case response.NotApplicable:
		p.decline(o.Call)
	default:
		p.recordResponse(o)
	}
}

func (p *Pass) recordResponse(o *Response) {
	c, response := o.Call, o.Response
	h := c.Handler
	h.Failed = nil
	basis, _ := p.basisOf(c)
	e := h.Entry()
	o.ownedBefore = e.OwnedDigest
	p.Responses = append(p.Responses, o)
	after := c.Digest // That of the input, once the response is written.
	switch watched := h.patched(seen{h.watched, p.Object}, patchOf(h, p.Responses...)).digest; c.Reason {
	case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume:
		after = watched
	case hook.ReasonDelete:
		after = lasthandled.DeletionDigest(watched)
	}
	switch {
	case c.Reason == hook.ReasonEvent, response.Err != nil && response.Progress == nil:
		// The previous progress remains.
	case response.Err == nil && response.RetryAfter <= 0:
		e = p.settle(c, basis, false)
	default:
		e.SetProgress(response.Progress, c.Reason, basis.digest)
		h.remember(basis)
		if response.Err == nil {
			p.requeueCall(c, response.RetryAfter, after)
			if c.Reason == hook.ReasonUpdate {
				e.InProgress, e.InProgressSince = h.watched, h.WatchedSince.Unix()
			}
		}
	}
	if h.handles(hook.ReasonDrift) && c.Reason != hook.ReasonEvent && response.Err == nil && e.Digest != "" {
		e.OwnedDigest = p.OwnedDigest
	}
	h.setEntry(e)
	if response.Err != nil {
		p.handlerFailed(c, after, response.Err)
		o.Failed = h.Failed
	}
}

// basisOf returns what a handler has seen once a call has succeeded: the object of the call, unless there is progress and
// another client has changed the object since. Calls with progress count from the state of the first of them, since the
// steps before have not seen what other clients have changed meanwhile. Events come between the calls with progress.
func (p *Pass) basisOf(c Call) (basis seen, outdated bool) {
	h, e := c.Handler, c.Handler.Entry()
	digest := e.ProgressDigest()
	if (e.HasProgress(c.Reason) || c.Reason == hook.ReasonEvent && e.Progress != "") && !p.isAt(h, digest) {
		return h.at(digest), true
	}
	return seen{c.watched, c.Object}, false
}

// settle records that a handler has handled the input of a call, or gave up on it, and returns its next entry. The basis is
// the state that the handler has seen in all of its calls.
func (v *Observation) settle(c Call, basis seen, gaveUp bool) lasthandled.Entry {
	h, e := c.Handler, c.Handler.Entry()
	h.Attempt, e.Attempts, e.Since = Attempt{}, 0, 0
	h.relatedChanged = false
	e.ClearProgress()
	switch c.Reason {
	case hook.ReasonCreate, hook.ReasonUpdate:
		e = lasthandled.Entry{
			Digest: basis.digest, Edition: v.editionOf(h.Handler, basis.object), Failed: gaveUp, OwnedDigest: e.OwnedDigest,
		}
		h.Resumed, h.editUndone = true, false
		h.remember(basis)
	case hook.ReasonDelete:
		e = lasthandled.Entry{Done: true}
		if gaveUp && !h.Optional {
			e = lasthandled.Entry{Digest: lasthandled.DeletionDigest(basis.digest), Failed: true}
			h.remember(basis)
		}
	case hook.ReasonResume:
		h.Resumed, e.Dropped = true, e.Dropped && gaveUp
	case hook.ReasonDrift:
		e.OwnedDigest, e.Dropped = c.Digest, e.Dropped && gaveUp
	case hook.ReasonRelated:
		e.Dropped = e.Dropped && gaveUp
	case hook.ReasonTimer:
		h.ticked(c, v.Now())
	}
	return e
}

func (v *Observation) requeueCall(c Call, delay time.Duration, after string) {
	h, previous := c.Handler, c.Handler.Attempt
	now := v.Now()
	again := Attempt{reason: c.Reason, digest: after, digestBefore: c.Digest, Since: now, requeued: true}
	if delay < time.Millisecond { // Such as hook.Immediately.
		delay = 0
		if previous.requeued && previous.hasInput(c) {
			again.immediateRequeues = previous.immediateRequeues + 1
			delay = h.Delay(nil, again.immediateRequeues, v.Random)
		}
	}
	again.Next = now.Add(delay)
	h.Attempt = again
}

// handlerFailed records a failed call and schedules the retry, if any. The digest is that of the input after what the handler
// returned beside the error.
func (p *Pass) handlerFailed(c Call, digest string, err error) {
	h := c.Handler
	if c.Reason == hook.ReasonEvent {
		p.GiveUp(c, err)
		return
	}
	now := p.Now()
	if !h.Attempt.isFor(c) {
		h.Attempt = Attempt{}
	}
	a := &h.Attempt
	if !a.hasInput(c) {
		a.delays = 0
	}
	a.delays++
	counts := !now.Before(a.due)
	if counts {
		a.count(now)
	}
	a.reason, a.digest, a.digestBefore, a.requeued = c.Reason, digest, c.Digest, false
	a.Next = now.Add(h.capAtNextTime(c, now, h.Delay(err, a.delays, p.Random), err))
	if counts {
		a.due = a.Next
		if a.delays < a.Count {
			a.due = now.Add(h.Delay(err, a.Count, p.Random))
		}
	}
	if hook.IsTerminal(err) || h.exhausted(*a) {
		p.GiveUp(c, err)
		return
	}
	if hasLimit := h.Retries > 0 || h.RetryTimeout > 0; hasLimit && c.Reason != hook.ReasonTimer { // It counts across restarts.
		e := h.Entry()
		e.Attempts, e.Since = a.Count, a.Since.Unix()
		h.setEntry(e)
	}
	p.fail(h, FailureReason(err), err)
}

// GiveUp records that a handler is not called again until its input changes.
func (p *Pass) GiveUp(c Call, err error) {
	h := c.Handler
	if c.Reason == hook.ReasonEvent {
		p.Fail(nil, failure.WithReason(FailureReason(err), fmt.Errorf("handler %s: %w", h.Title(), err)))
		return
	}
	basis, _ := p.basisOf(c)
	h.setEntry(p.settle(c, basis, true))
	p.fail(h, ReasonGaveUp, err)
}

func (v *Observation) fail(h *State, reason string, err error) {
	err = fmt.Errorf("handler %s: %w", h.Title(), err)
	if reason == ReasonGaveUp {
		err = fmt.Errorf("gave up: %w", err)
	}
	v.Fail(h, failure.WithReason(reason, err))
}

// FailureReason returns the reason of a handler's failure.
func FailureReason(err error) string {
	if hook.IsMalformed(err) {
		return ReasonInvalidResponse
	}
	return ReasonHandlerFailed
}

func (p *Pass) decline(c Call) {
	if c.Reason == hook.ReasonEvent {
		return // Each event is called for anyway.
	}
	h, state := c.Handler, p.State()
	if handled, outdated := p.basisOf(c); outdated && c.Reason == hook.ReasonUpdate {
		// Its steps until now have seen a state that is to be compared with.
		h.setEntry(p.settle(c, handled, false))
		h.Failed = nil
		return
	}
	if h.state != state {
		h.state, h.declined = state, nil
	}
	h.declined = append(h.declined, c.Reason)
	switch {
	case c.Reason != hook.ReasonTimer:
	case h.FromFirstSeen:
		h.matchedSince, h.lastTick = time.Time{}, time.Time{}
	default:
		h.ticked(c, p.Now())
	}
	h.Succeed()
}

// DropOutdated drops a response, so that the handler is called again for the current object, if a field that it sets has
// changed since the handler saw it, by another client or another handler. The base includes what was written of it.
func (p *Pass) DropOutdated(o *Response) (dropped bool) {
	if o.Base == nil || len(ConflictingFields(o.Response, o.Base, p.Object, false)) == 0 {
		return false
	}
	p.TakeBack(o)
	if h := o.Call.Handler; o.Call.Reason == hook.ReasonEvent {
		h.Events = append([]Event{o.Call.Event}, h.Events...)
	}
	return true
}

// TakeBack drops a response and takes its handler back to before it. A part of the response may be stored, so the handler
// is called again, even if the object is then as it was handled before.
func (p *Pass) TakeBack(o *Response) {
	h, reason := o.Call.Handler, o.Call.Reason
	p.RemovePending(o)
	if reason == hook.ReasonEvent {
		return
	}
	h.Progress = o.progressBefore
	if e := h.Entry(); e.Digest != "" && (reason == hook.ReasonCreate || reason == hook.ReasonUpdate) {
		e.Dropped = true
		h.setEntry(e)
	}
}

// ConflictingFields returns the fields that a response sets and that have changed since the handler saw them. With
// partlyWritten, fields that already have the value of the response are none: an earlier attempt may have written them.
func ConflictingFields(a *hook.HandlerResponse, before, now *object.Object, partlyWritten bool) []string {
	patch := responsePatch(a, true)
	if patch == nil || before == now || now.Digest() == before.Digest() {
		return nil
	}
	fields := conflictsAt("", patch, object.DecodeOrEmpty(before.JSON()), object.DecodeOrEmpty(now.JSON()), partlyWritten)
	slices.Sort(fields)
	return fields
}

// conflictsAt returns the leaves of a patch at which two trees differ.
func conflictsAt(path string, patch, before, now map[string]any, partlyWritten bool) (fields []string) {
	for name, value := range patch {
		at := strings.TrimPrefix(path+"."+name, ".")
		inner, isObject := value.(map[string]any)
		was, _ := before[name].(map[string]any)
		is, wasObject := now[name].(map[string]any)
		switch {
		case isObject && (wasObject || now[name] == nil):
			fields = append(fields, conflictsAt(at, inner, was, is, partlyWritten)...)
		case reflect.DeepEqual(before[name], now[name]), partlyWritten && reflect.DeepEqual(now[name], value):
		default:
			fields = append(fields, at)
		}
	}
	return fields
}

// An entry is about what a handler has seen stored. What its responses change in the object is no part of that until it
// is written: neither the change nor that it is still missing is an edit. A write changes what is stored and what the
// handler has seen alike, so that a handler does not trigger itself.

// moved returns an entry of a handler with a change of its own added to the states that it has seen; the same without one.
func (p *Pass) moved(h *State, e lasthandled.Entry, patch map[string]any) lasthandled.Entry {
	if patch == nil {
		return e
	}
	stored, recorded := h.patched(seen{h.watched, p.Object}, patch), lasthandled.CutDeletion(e.Digest)
	move := func(digest string) string {
		if digest == "" {
			return ""
		}
		s := h.patched(h.at(digest), patch)
		h.remember(s)
		return s.digest
	}
	handled := move(recorded)
	if recorded != "" && (h.isStoredAs(recorded) || stored.digest == handled) { // A part may be written before.
		e.Edition = p.editionOf(h.Handler, stored.object)
	}
	if e.Digest == recorded {
		e.Digest = handled
	} else {
		e.Digest = lasthandled.DeletionDigest(handled)
	}
	e.MoveProgress(move(e.ProgressDigest()))
	if e.InProgress != "" {
		e.InProgress = stored.digest
	}
	return e
}

// changeWritten adds a change of the handler itself that is stored to what it has seen, even if the rest of the response
// never is.
func (p *Pass) changeWritten(h *State, patch map[string]any) {
	for _, by := range p.seenBy(h) {
		previous := *cmp.Or(by.pendingEntry, &h.storedEntry)
		if e := p.moved(h, previous, patch); e != previous {
			by.pendingEntry = &e
		}
		if by.firstDigest != "" {
			first := h.patched(h.at(by.firstDigest), patch)
			h.remember(first)
			by.firstDigest = first.digest
		}
	}
}

// Written records that a response, if there is one, and the record were written completely: before that, the object was
// stored as before, and sent is what was sent of the response. An API server may store something else, such as defaults. The
// stored state counts as handled: the resource version excludes writes of other clients.
func (p *Pass) Written(o *Response, before *object.Object, sent map[string]any) {
	if o != nil && o.Attempt.Count > 0 {
		o.Attempt, o.Call.Handler.Failed = Attempt{}, o.Failed
	}
	p.RemovePending(o)
	for i, h := range p.Handlers {
		if patch := patchOf(h, o); patch != nil {
			p.changeWritten(h, patch)
		}
		e, stored := h.Entry(), p.digestsOf(p.Object)[i]
		recorded := cmp.Or(e.ProgressDigest(), e.Digest)
		if o != nil && o.Call.Handler == h && o.ChangesObject() && sent != nil && recorded != stored &&
			recorded == h.patched(seen{object: before}, sent).digest {
			h.serverDigest.recorded, h.serverDigest.actual = recorded, stored
		}
		if h.pendingEntry != nil && !p.HasPending(h, nil) {
			h.storedEntry, h.pendingEntry = e, nil
		}
	}
}

// StateWith returns the record to store with a response, which may be nil: with pending entries, except those of handlers
// with other pending responses, and without the entries of removed handlers.
func (p *Pass) StateWith(written *Response, appliedObjects string) lasthandled.Record {
	state := lasthandled.Record{}
	for _, h := range p.Handlers {
		e := p.moved(h, h.Entry(), patchOf(h, written))
		if p.HasPending(h, written) || h.pendingEntry == nil && p.isReleased() {
			e = p.Recorded[h.Name]
		}
		if e != (lasthandled.Entry{}) {
			state[h.Name] = e
		}
	}
	if len(state) > 0 {
		own := lasthandled.Entry{Version: lasthandled.Version, Digest: lasthandled.Digest(p.Object.UID()), Applied: appliedObjects}
		state[lasthandled.Object] = own
		own.States = p.handledStates(state, written)
		state[lasthandled.Object] = own
	}
	return state
}

// The API server limits all annotations of an object to 256 KiB, and etcd an object to 1.5 MiB. maxStates limits the
// handled states in a record, and the others leave room for what other clients write.
const (
	maxStates      = 64_000
	maxAnnotations = 160_000
	maxObject      = 1_200_000
)

// roomForStates returns how large the handled states may be beside the rest of the record and what is written with it.
func (v *Observation) roomForStates(rest lasthandled.Record, written *Response) int {
	size := len(rest.String()) - len(v.Object.Field(v.Rules.Record.InAnnotation()...))
	if written != nil {
		size += len(written.Response.Patch) + len(written.Response.Status)
	}
	return min(maxStates, maxAnnotations-size-len(v.Object.Field("metadata", "annotations")), maxObject-size-len(v.Object.JSON()))
}

// handledStates returns the handled states that go into a record, for handlers that need them after a restart: none in a
// deletion. It notes the handlers whose states are too large. It does not try these again: where two controllers share
// the room, each would find it free in turn.
func (p *Pass) handledStates(state lasthandled.Record, written *Response) lasthandled.JSON {
	p.Unstored = nil
	if p.Object.Deleting() || !slices.ContainsFunc(p.Handlers, func(h *State) bool { return h.KeepPreviousState }) {
		return ""
	}
	previous, states, left := p.Recorded.States(), map[string]json.RawMessage{}, p.roomForStates(state, written)
	for _, h := range p.Handlers {
		digest := state[h.Name].Digest
		if !h.KeepPreviousState || digest == "" || states[digest] != nil {
			continue
		}
		part := previous[digest]
		if o := h.at(digest).object; part == nil && o != nil {
			if fields := h.WatchedFields(o); lasthandled.Digest(fields) == digest {
				part = lasthandled.Encode(fields)
			}
		}
		switch {
		case part == nil: // It is not known any more.
		case len(part) > left, h.unstored == digest:
			h.unstored = digest
			p.Unstored = append(p.Unstored, h.Title())
		default:
			states[digest], left = part, left-len(part)
		}
	}
	if len(states) == 0 {
		return ""
	}
	return lasthandled.JSON(lasthandled.Encode(states))
}

// restoreHandled sets what a handler has handled in an earlier process, if the record has it: the watched fields.
func (v *Observation) restoreHandled(h *State) {
	digest := h.Entry().Digest
	if !h.KeepPreviousState || h.at(digest).object != nil {
		return
	}
	part := v.Recorded.State(digest)
	if part == nil {
		return
	}
	metadata := map[string]any{"name": v.Object.Name(), "uid": v.Object.UID()}
	if v.Object.Namespace() != "" {
		metadata["namespace"] = v.Object.Namespace()
	}
	whole := map[string]any{"apiVersion": v.Object.APIVersion(), "kind": v.Object.Kind(), "metadata": metadata}
	if o, err := object.Encode(object.CombinePatches(part, whole)); err == nil {
		h.remember(seen{digest, o})
	}
}

// restoreEntry writes the entry of a handler again after another client removed or changed the record. The memory
// has the entry, so no handler is called: otherwise a tool that keeps writing its own form of
// the object would cause a loop. An object that is being deleted and is released needs no record.
func (v *Observation) restoreEntry(h *State) (lost bool) {
	switch e := v.Recorded[h.Name]; {
	case e != lasthandled.Entry{}:
		h.storedEntry = e
	case h.storedEntry != lasthandled.Entry{} && h.pendingEntry == nil && !v.isReleased():
		kept := h.storedEntry
		h.pendingEntry, lost = &kept, true
	}
	return lost
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
		for _, by := range p.seenBy(h) {
			e := *cmp.Or(by.pendingEntry, &h.storedEntry)
			if e.Digest == "" || e.OwnedDigest != before {
				continue
			}
			e.OwnedDigest = ownedDigest
			by.pendingEntry = &e
			if by.Attempt.requeued && by.Attempt.reason == hook.ReasonDrift {
				by.Attempt.digest = ownedDigest
			}
		}
	}
}
