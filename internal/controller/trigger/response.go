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

// An entry is about what a handler has seen stored. What its responses change in the object is no part of that until it
// is written: neither the change nor that it is still missing is an edit. A write changes what is stored and what the
// handler has seen alike, so that a handler does not trigger itself.

// WrittenEntry returns the entry of a handler once a response is written; nil for none.
func (v *Observation) WrittenEntry(h *State, written *Response) lasthandled.Entry {
	e := h.Entry()
	if patch := patchOf(h, written); patch != nil {
		e, _ = v.moveEntry(h, h.Progress, patch)
	}
	return e
}

// moveEntry returns an entry of a handler with a change of its own added to the states that it has seen.
func (v *Observation) moveEntry(h *State, from Progress, patch map[string]any) (e lasthandled.Entry, moved bool) {
	previous := cmp.Or(from.pendingEntry, &h.storedEntry)
	e = *previous
	recorded, inDeletion := e.Digest, e.Failed && v.Object.Deleting() && len(e.Digest) > len(h.watched)
	if inDeletion {
		recorded = lasthandled.CutDeletion(recorded) // Which a digest may begin with as well.
	}
	stored := basis{h.watched, v.Object}.with(h.Handler, patch)
	handled := stored
	if from.Handled != v.Object {
		handled = basis{recorded, from.Handled}.with(h.Handler, patch)
	}
	if recorded != "" && (h.isStoredAs(recorded) || stored.Digest == handled.Digest) { // A part may be written before.
		e.Edition = v.editionOf(h.Handler, stored.object)
	}
	switch {
	case recorded == "" || handled.Digest == recorded:
	case inDeletion:
		e.Digest = lasthandled.DeletionDigest(handled.Digest)
	default:
		e.Digest = handled.Digest
	}
	e.MoveProgress(basis{e.ProgressDigest(), from.progressObject}.with(h.Handler, patch).Digest)
	if e.InProgress != "" {
		e.InProgress = stored.Digest
	}
	return e, e != *previous
}

// changeWritten adds a change of the handler itself that is stored to what it has seen, even if the rest of the response
// never is.
func (p *Pass) changeWritten(h *State, patch map[string]any) {
	for _, seen := range p.seenBy(h) {
		if e, moved := p.moveEntry(h, *seen, patch); moved {
			seen.pendingEntry = &e
		}
		if seen.firstDigest != "" {
			seen.firstDigest = basis{seen.firstDigest, seen.Handled}.with(h.Handler, patch).Digest
		}
		seen.Handled = basis{object: seen.Handled}.with(h.Handler, patch).object
		seen.progressObject = basis{object: seen.progressObject}.with(h.Handler, patch).object
	}
}

// entryWritten updates what the memory has of a handler after a response and the record were written.
func (p *Pass) entryWritten(h *State, written *Response) {
	if patch := patchOf(h, written); patch != nil {
		p.changeWritten(h, patch)
		defer p.noteUnwritten(h)
	}
	e := p.WrittenEntry(h, written)
	switch {
	case e == h.Entry() && h.pendingEntry == nil:
	case p.HasPending(h, nil):
		h.pendingEntry = &e
	default:
		h.storedEntry, h.pendingEntry = e, nil
	}
}

// StateWith returns the record to store with a response, which may be nil: with pending entries, except those of handlers
// with other pending responses, and without the entries of removed handlers.
func (p *Pass) StateWith(written *Response, appliedObjects string) lasthandled.Record {
	state := lasthandled.Record{}
	for _, h := range p.Handlers {
		e := p.WrittenEntry(h, written)
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
		own.States = p.statesOf(p.Handlers, state, written)
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

// statesOf returns the handled states that go into a record, for handlers that need them after a restart: none in a
// deletion. It notes the handlers whose states are too large. It does not try these again: where two controllers share
// the room, each would find it free in turn.
func (v *Observation) statesOf(of []*State, state lasthandled.Record, written *Response) lasthandled.JSON {
	v.Unstored = nil
	if v.Object.Deleting() || !slices.ContainsFunc(of, func(h *State) bool { return h.KeepPreviousState }) {
		return ""
	}
	previous, states, left := v.Recorded.States(), map[string]json.RawMessage{}, v.roomForStates(state, written)
	for _, h := range of {
		digest := state[h.Name].Digest
		if !h.KeepPreviousState || digest == "" || states[digest] != nil {
			continue
		}
		part := previous[digest]
		if part == nil {
			part = v.watchedState(h, digest, written)
		}
		switch {
		case part == nil: // It is not known any more.
		case len(part) > left, h.unstored == digest:
			h.unstored = digest
			v.Unstored = append(v.Unstored, h.Title())
		default:
			states[digest], left = part, left-len(part)
		}
	}
	if len(states) == 0 {
		return ""
	}
	return lasthandled.JSON(lasthandled.Encode(states))
}

// watchedState returns the watched fields with a digest: of the handled object with what a response changes, or of the
// current one; nil if none has it.
func (v *Observation) watchedState(h *State, seen string, written *Response) json.RawMessage {
	for _, o := range []*object.Object{basis{object: h.Handled}.with(h.Handler, patchOf(h, written)).object, v.Object} {
		if o != nil && lasthandled.Digest(h.WatchedFields(o)) == seen {
			return lasthandled.Encode(h.WatchedFields(o))
		}
	}
	return nil
}

// restoreHandled sets what a handler has handled in an earlier process, if the record has it: the watched fields.
func (v *Observation) restoreHandled(h *State) {
	if !h.KeepPreviousState || h.Handled != nil {
		return
	}
	part := v.Recorded.State(h.Entry().Digest)
	if part == nil {
		return
	}
	metadata := map[string]any{"name": v.Object.Name(), "uid": v.Object.UID()}
	if v.Object.Namespace() != "" {
		metadata["namespace"] = v.Object.Namespace()
	}
	whole := map[string]any{"apiVersion": v.Object.APIVersion(), "kind": v.Object.Kind(), "metadata": metadata}
	if o, err := object.Encode(object.CombinePatches(part, whole)); err == nil {
		h.Handled = o
	}
}

// restoreState writes the record again after another client removed or changed it. The memory
// has the record, so no handler is called: otherwise a tool that keeps writing its own form of
// the object would cause a loop. An object that is being deleted and is released needs no record.
func (p *Pass) restoreState() (lost bool) {
	for _, h := range p.Handlers {
		e := p.Recorded[h.Name]
		switch {
		case e != lasthandled.Entry{}:
			h.storedEntry = e
		case h.storedEntry != lasthandled.Entry{} && h.pendingEntry == nil && !p.isReleased():
			kept := h.storedEntry
			h.pendingEntry, lost = &kept, true
		}
	}
	return lost
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

// noteUnwritten updates what is unwritten, after a change of the object or of the pending responses.
func (p *Pass) noteUnwritten(h *State) {
	patch := patchOf(h, p.Responses...)
	h.unwritten = unwritten{patch, basis{h.watched, p.Object}.with(h.Handler, patch).Digest}
}

// Begin notes that a call is about to be made, and returns its response, which Complete fills.
func (p *Pass) Begin(c Call) *Response {
	p.CountChange(c)
	p.dropSuperseded(c)
	o := &Response{Call: c, Fresh: true, Base: p.Object, progressBefore: c.Handler.Progress}
	c.Handler.relatedUnseen = c.Handler.relatedUnseen && c.Reason == hook.ReasonEvent
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

// recordResponse records a response: what to write, and the entry to store with it.
func (p *Pass) recordResponse(o *Response) {
	c, response := o.Call, o.Response
	h := c.Handler
	h.Failed = nil
	seen, _ := h.basisOf(c)
	e := h.Entry()
	o.ownedBefore = e.OwnedDigest
	p.Responses = append(p.Responses, o)
	p.noteUnwritten(h)
	after := h.unwritten.watched
	switch {
	case c.Reason == hook.ReasonEvent, response.Err != nil && response.Progress == nil:
		// The previous progress remains.
	case response.Err != nil:
		h.setProgress(&e, c, seen, response.Progress)
	case response.RetryAfter <= 0:
		e = p.settle(c, seen, false)
	default:
		p.requeueCall(c, response, after)
		h.setProgress(&e, c, seen, response.Progress)
		if c.Reason == hook.ReasonUpdate {
			e.InProgress, e.InProgressSince = h.watched, h.WatchedSince.Unix()
		}
	}
	if h.handles(hook.ReasonDrift) && c.Reason != hook.ReasonEvent && response.Err == nil && e.Digest != "" {
		e.OwnedDigest = p.OwnedDigest
	}
	h.setEntry(e)
	if response.Err != nil {
		p.handlerFailed(c, c.digestAfter(after), response.Err)
		o.Failed = h.Failed
	}
}

// settle records that a handler has handled the input of a call, or gave up on it, and returns its next entry. Seen is
// the state that the handler has seen in all of its calls.
func (v *Observation) settle(c Call, seen basis, gaveUp bool) lasthandled.Entry {
	h, e := c.Handler, c.Handler.Entry()
	h.Attempt, e.Attempts, e.Since = Attempt{}, 0, 0
	h.relatedChanged = false
	e.ClearProgress()
	switch c.Reason {
	case hook.ReasonCreate, hook.ReasonUpdate:
		e = lasthandled.Entry{
			Digest: seen.Digest, Edition: v.editionOf(h.Handler, seen.object), Failed: gaveUp, OwnedDigest: e.OwnedDigest,
		}
		h.Handled, h.Resumed, h.editUndone = seen.object, true, false
	case hook.ReasonDelete:
		e = lasthandled.Entry{Done: true}
		if gaveUp && !h.Optional {
			e = lasthandled.Entry{Digest: lasthandled.DeletionDigest(seen.Digest), Failed: true}
			h.Handled = seen.object
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

func (v *Observation) requeueCall(c Call, response *hook.HandlerResponse, after string) {
	h, previous := c.Handler, c.Handler.Attempt
	now, delay := v.Now(), response.RetryAfter
	again := Attempt{reason: c.Reason, digest: c.digestAfter(after), digestBefore: c.Digest, Since: now, requeued: true}
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

// dropSuperseded drops the pending responses of a handler that is about to be called again for something newer.
func (p *Pass) dropSuperseded(c Call) {
	h := c.Handler
	for _, o := range p.pendingOf(h) {
		if !c.supersedes(o.Call.Reason) {
			continue
		}
		p.RemovePending(o)
		p.noteUnwritten(h)
		e, settled := h.Entry(), o.Response.Err == nil && o.Response.RetryAfter <= 0
		switch o.Call.Reason {
		case hook.ReasonCreate, hook.ReasonUpdate:
			e.Dropped = settled
		case hook.ReasonDrift:
			e.OwnedDigest = o.ownedBefore
		}
		h.setEntry(e)
	}
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
	p.noteUnwritten(h)
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
func ConflictingFields(a *hook.HandlerResponse, seen, now *object.Object, partlyWritten bool) []string {
	patch := responsePatch(a, true)
	if patch == nil || seen == now || now.Digest() == seen.Digest() {
		return nil
	}
	fields := conflictsAt("", patch, object.DecodeOrEmpty(seen.JSON()), object.DecodeOrEmpty(now.JSON()), partlyWritten)
	slices.Sort(fields)
	return fields
}

// conflictsAt returns the leaves of a patch at which two trees differ.
func conflictsAt(path string, patch, seen, now map[string]any, partlyWritten bool) (fields []string) {
	for name, value := range patch {
		at := strings.TrimPrefix(path+"."+name, ".")
		inner, isObject := value.(map[string]any)
		before, _ := seen[name].(map[string]any)
		after, wasObject := now[name].(map[string]any)
		switch {
		case isObject && (wasObject || now[name] == nil):
			fields = append(fields, conflictsAt(at, inner, before, after, partlyWritten)...)
		case reflect.DeepEqual(seen[name], now[name]), partlyWritten && reflect.DeepEqual(now[name], value):
		default:
			fields = append(fields, at)
		}
	}
	return fields
}

// handlerFailed records a failed call and schedules the retry, if any. The digest is that of the input after what the handler
// returned beside the error.
func (v *Observation) handlerFailed(c Call, digest string, err error) {
	h := c.Handler
	if c.Reason == hook.ReasonEvent {
		v.GiveUp(c, err)
		return
	}
	now := v.Now()
	if !h.Attempt.isFor(c) {
		h.Attempt = Attempt{}
	}
	a := &h.Attempt
	counts := a.add(c, now)
	a.reason, a.digest, a.digestBefore, a.requeued = c.Reason, digest, c.Digest, false
	a.Next = now.Add(h.capAtNextTime(c, now, h.Delay(err, a.delays, v.Random), err))
	if counts {
		a.due = a.Next
		if a.delays < a.Count {
			a.due = now.Add(h.Delay(err, a.Count, v.Random))
		}
	}
	if hook.IsTerminal(err) || h.exhausted(*a) {
		v.GiveUp(c, err)
		return
	}
	if hasLimit := h.Retries > 0 || h.RetryTimeout > 0; hasLimit && c.Reason != hook.ReasonTimer { // It counts across restarts.
		e := h.Entry()
		e.Attempts, e.Since = a.Count, a.Since.Unix()
		h.setEntry(e)
	}
	v.fail(h, FailureReason(err), err)
}

// GiveUp records that a handler is not called again until its input changes.
func (v *Observation) GiveUp(c Call, err error) {
	h := c.Handler
	if c.Reason == hook.ReasonEvent {
		v.Fail(nil, failure.WithReason(FailureReason(err), fmt.Errorf("handler %s: %w", h.Title(), err)))
		return
	}
	seen, _ := h.basisOf(c)
	h.setEntry(v.settle(c, seen, true))
	v.fail(h, ReasonGaveUp, err)
}

// decline records that a handler is not applicable with the reason of a call.
func (v *Observation) decline(c Call) {
	if c.Reason == hook.ReasonEvent {
		return // Each event is called for anyway.
	}
	h, state := c.Handler, v.State()
	if handled, outdated := h.basisOf(c); outdated && c.Reason == hook.ReasonUpdate {
		// Its steps until now have seen a state that is to be compared with.
		h.setEntry(v.settle(c, handled, false))
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
		h.ticked(c, v.Now())
	}
	h.Succeed()
}

// RecognizeServerChanges handles an API server that stores something else than what was sent of a response, such as
// defaults. The stored state counts as handled: the resource version excludes writes of other clients.
func (p *Pass) RecognizeServerChanges(o *Response, before *object.Object, sent map[string]any) {
	h := o.Call.Handler
	e, stored := p.WrittenEntry(h, o), p.watchedDigests()[slices.Index(p.Handlers, h)]
	recorded := cmp.Or(e.ProgressDigest(), e.Digest)
	if recorded != stored && recorded == (basis{object: before}).with(h.Handler, sent).Digest {
		h.serverDigest.recorded, h.serverDigest.actual = recorded, stored
	}
}

// Written records that a response, if there is one, and the record were written completely.
func (p *Pass) Written(o *Response) {
	if o != nil && o.Attempt.Count > 0 {
		o.Attempt, o.Call.Handler.Failed = Attempt{}, o.Failed
	}
	p.RemovePending(o)
	for _, h := range p.Handlers {
		p.entryWritten(h, o)
	}
}
