package handler

import (
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

// pendingResponse is a response that is not completely written yet.
type pendingResponse struct {
	call     call
	response *hook.HandlerResponse
	// resolved means that targets are the objects to delete. They are found once, so that a
	// replacement of the same name survives.
	resolved bool
	targets  []target
	// appliedCount is the number of applied objects.
	appliedCount int
	// applied means that only the object itself remains to be written.
	applied bool
	attempt attempt
	// fresh means that the response is of this run.
	fresh bool
	// base is the object that the handler saw, with our writes of the response since.
	// progressBefore is the handler's progress before the call, for another call, and ownedBefore the digest of the
	// owned objects in its entry.
	base           *object.Object
	progressBefore progress
	ownedBefore    string
	// failed is the error that the handler returned beside the response; usually nil.
	failed *handlerFailure
}

// target is one object to delete.
type target struct {
	resource object.Resource
	object   *object.Object
	evict    bool
	// selector is the selector of the response that matches the object; empty for a deletion
	// by name.
	selector string
}

// changesObject reports whether the response changes the object itself.
func (o *pendingResponse) changesObject() bool {
	a := o.response
	return a.Patch != nil || a.Status != nil || len(a.Conditions) > 0 || a.Message != ""
}

// recordResponse records a response: what to write, and the entry to store with it.
func (p *Pass) recordResponse(o *pendingResponse) {
	c, response := o.call, o.response
	h := c.handler
	h.failed = nil
	seen, _ := h.basisOf(c)
	e := h.entry()
	o.ownedBefore = e.OwnedDigest
	p.responses = append(p.responses, o)
	p.noteUnwritten(h)
	after := h.unwritten.watched
	switch {
	case c.reason == hook.ReasonEvent, response.Err != nil && response.Progress == nil:
		// The former progress remains.
	case response.Err != nil:
		h.setProgress(&e, c, seen, response.Progress)
	case response.RetryAfter <= 0:
		p.settle(c, &e, seen, false)
	default:
		p.requeueCall(c, response, after)
		h.setProgress(&e, c, seen, response.Progress)
		if c.reason == hook.ReasonUpdate {
			e.InProgress, e.InProgressSince = h.watched, h.watchedSince.Unix()
		}
	}
	if h.handles(hook.ReasonDrift) && c.reason != hook.ReasonEvent && response.Err == nil && e.Digest != "" {
		e.OwnedDigest = p.ownedDigest
	}
	if e != (lasthandled.Entry{}) {
		h.pendingEntry = &e
	}
	if response.Err != nil {
		p.handlerFailed(c, c.digestAfter(after), response.Err)
		o.failed = h.failed
	}
}

// settle records that a handler has handled the input of a call, or gave up on it. It changes
// the entry of the handler; seen is the state that the handler has seen in all of its calls.
func (v *observation) settle(c call, e *lasthandled.Entry, seen basis, gaveUp bool) {
	h := c.handler
	h.attempt, e.Attempts, e.Since = attempt{}, 0, 0
	h.relatedChanged = false
	e.ClearProgress()
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate:
		*e = lasthandled.Entry{
			Digest: seen.digest, Edition: v.editionOf(h.Handler, seen.object), Failed: gaveUp, OwnedDigest: e.OwnedDigest,
		}
		h.handled, h.resumed, h.editUndone = seen.object, true, false
	case hook.ReasonDelete:
		*e = lasthandled.Entry{Done: true}
		if gaveUp && !h.Optional {
			*e = lasthandled.Entry{Digest: lasthandled.DeletionDigest(seen.digest), Failed: true}
			h.handled = seen.object
		}
	case hook.ReasonResume:
		h.resumed, e.Dropped = true, e.Dropped && gaveUp
	case hook.ReasonDrift:
		e.OwnedDigest, e.Dropped = c.digest, e.Dropped && gaveUp
	case hook.ReasonRelated:
		e.Dropped = e.Dropped && gaveUp
	case hook.ReasonTimer:
		h.ticked(c, v.now())
	}
}

// requeueCall records that a handler requested another call.
func (v *observation) requeueCall(c call, response *hook.HandlerResponse, after string) {
	h, former := c.handler, c.handler.attempt
	now, delay := v.now(), response.RetryAfter
	again := attempt{reason: c.reason, digest: c.digestAfter(after), digestBefore: c.digest, since: now, requeued: true}
	if delay < time.Millisecond { // Such as hook.Immediately.
		delay = 0
		if former.requeued && former.hasInput(c) {
			again.immediateRequeues = former.immediateRequeues + 1
			delay = h.delay(nil, again.immediateRequeues, v.random)
		}
	}
	again.next = now.Add(delay)
	h.attempt = again
}

// responsePatch returns what a response changes in the object as a patch, with or without the
// status; nil if it changes nothing.
func responsePatch(a *hook.HandlerResponse, status bool) map[string]any {
	status = status && a.Status != nil
	if a.Patch == nil && !status {
		return nil
	}
	patch := object.DecodeOrEmpty(a.Patch)
	if status {
		patch = object.CombinePatches(patch, map[string]any{"status": object.DecodeOrEmpty(a.Status)})
	}
	return patch
}

// dropSuperseded drops the pending responses of a handler that is about to be called again for something newer.
func (p *Pass) dropSuperseded(c call) {
	h := c.handler
	for _, o := range slices.Clone(p.responses) {
		if o.call.handler != h || !c.supersedes(o.call.reason) {
			continue
		}
		p.drop(o)
		e, settled := h.entry(), o.response.Err == nil && o.response.RetryAfter <= 0
		switch o.call.reason {
		case hook.ReasonCreate, hook.ReasonUpdate:
			e.Dropped = settled
		case hook.ReasonDrift:
			e.OwnedDigest = o.ownedBefore
		}
		if e != h.entry() {
			h.pendingEntry = &e
		}
	}
}

// hasConflict reports whether a field that a response sets has changed since the handler saw
// it, by another client or another handler. The base includes what was written of the response
// itself.
func (v *observation) hasConflict(o *pendingResponse) bool {
	return o.base != nil && len(conflictingFields(o.response, o.base, v.object, false)) > 0
}

// callAgain drops a conflicting response, so that the handler is called again for the current
// object.
func (p *Pass) callAgain(o *pendingResponse) {
	p.drop(o)
	h := o.call.handler
	o.takeBack()
	if o.call.reason == hook.ReasonEvent {
		h.events = append([]observedEvent{o.call.event}, h.events...)
	}
}

// takeBack takes the handler back to before the response. A part of the response may be stored, so the handler is called
// again, even if the object is then as it was handled before.
func (o *pendingResponse) takeBack() {
	h, reason := o.call.handler, o.call.reason
	if reason == hook.ReasonEvent {
		return
	}
	h.progress = o.progressBefore
	if e := h.entry(); e.Digest != "" && (reason == hook.ReasonCreate || reason == hook.ReasonUpdate) {
		e.Dropped = true
		h.pendingEntry = &e
	}
}

// drop removes a response that is not written any more.
func (p *Pass) drop(o *pendingResponse) {
	p.removePending(o)
	p.noteUnwritten(o.call.handler)
}

// conflictingFields returns the fields that a response sets and that have changed since the
// handler saw them. With partlyWritten, fields that already have the value of the response are
// none: an earlier attempt may have written them.
func conflictingFields(a *hook.HandlerResponse, seen, now *object.Object, partlyWritten bool) []string {
	patch := responsePatch(a, true)
	if patch == nil || seen == now || now.Digest() == seen.Digest() {
		return nil
	}
	c := fieldConflicts{partlyWritten: partlyWritten}
	c.compare("", patch, object.DecodeOrEmpty(seen.JSON()), object.DecodeOrEmpty(now.JSON()))
	slices.Sort(c.fields)
	return c.fields
}

// fieldConflicts collects the leaves of a patch at which two trees differ.
type fieldConflicts struct {
	partlyWritten bool
	fields        []string
}

func (c *fieldConflicts) compare(path string, patch, seen, now map[string]any) {
	for name, value := range patch {
		at := strings.TrimPrefix(path+"."+name, ".")
		inner, isObject := value.(map[string]any)
		before, _ := seen[name].(map[string]any)
		after, wasObject := now[name].(map[string]any)
		switch {
		case isObject && (wasObject || now[name] == nil):
			c.compare(at, inner, before, after)
		case reflect.DeepEqual(seen[name], now[name]), c.partlyWritten && reflect.DeepEqual(now[name], value):
		default:
			c.fields = append(c.fields, at)
		}
	}
}

// patchOf returns what those of the responses that are a handler's change in the object; nil if nothing.
func patchOf(h *state, responses []*pendingResponse) map[string]any {
	var patch map[string]any
	for _, o := range responses {
		if o.call.handler != h {
			continue
		}
		if one := responsePatch(o.response, h.watchesStatus()); one != nil {
			patch = object.CombinePatches(patch, one)
		}
	}
	return patch
}

// noteUnwritten updates what is unwritten, after a change of the object or of the pending responses.
func (p *Pass) noteUnwritten(h *state) {
	patch := patchOf(h, p.responses)
	h.unwritten = unwritten{patch, basis{h.watched, p.object}.with(h.Handler, patch).digest}
}

// handlerFailed records a failed call and schedules the retry, if any. The digest is that of the
// input after what the handler returned beside the error.
func (v *observation) handlerFailed(c call, digest string, err error) {
	h := c.handler
	err = fmt.Errorf("handler %s: %w", h.title(), err)
	if c.reason == hook.ReasonEvent {
		v.giveUp(c, err)
		return
	}
	now := v.now()
	if !h.attempt.isFor(c) {
		h.attempt = attempt{}
	}
	a := &h.attempt
	counts := a.add(c, now)
	a.reason, a.digest, a.digestBefore, a.requeued = c.reason, digest, c.digest, false
	a.next = now.Add(h.capAtNextTime(c, now, h.delay(err, a.delays, v.random), err))
	if counts {
		a.due = a.next
		if a.delays < a.count {
			a.due = now.Add(h.delay(err, a.count, v.random))
		}
	}
	if hook.IsTerminal(err) || h.exhausted(*a) {
		v.giveUp(c, err)
		return
	}
	if hasLimit := h.Retries > 0 || h.RetryTimeout > 0; hasLimit && c.reason != hook.ReasonTimer { // It counts across restarts.
		e := h.entry()
		e.Attempts, e.Since = a.count, a.since.Unix()
		h.pendingEntry = &e
	}
	v.fail(h, failure.WithReason(handlerFailureReason(err), err))
}

// handlerFailureReason returns the reason of a handler's failure.
func handlerFailureReason(err error) string {
	if hook.IsMalformed(err) {
		return ReasonInvalidResponse
	}
	return ReasonHandlerFailed
}

// giveUp records that a handler is not called again until its input changes.
func (v *observation) giveUp(c call, err error) {
	h := c.handler
	if c.reason == hook.ReasonEvent {
		v.fail(nil, failure.WithReason(handlerFailureReason(err), err))
		return
	}
	e := h.entry()
	seen, _ := h.basisOf(c)
	v.settle(c, &e, seen, true)
	if e != (lasthandled.Entry{}) {
		h.pendingEntry = &e
	}
	v.fail(h, failure.WithReason(ReasonGaveUp, fmt.Errorf("gave up: %w", err)))
}

// decline records that a handler is not applicable with the reason of a call.
func (v *observation) decline(c call) {
	if c.reason == hook.ReasonEvent {
		return // Each event is called for anyway.
	}
	h, state := c.handler, v.state()
	if handled, outdated := h.basisOf(c); outdated && c.reason == hook.ReasonUpdate {
		// Its steps until now have seen a state that is to be compared with.
		e := h.entry()
		v.settle(c, &e, handled, false)
		h.pendingEntry, h.failed = &e, nil
		return
	}
	if h.state != state {
		h.state, h.declined = state, nil
	}
	h.declined = append(h.declined, c.reason)
	switch {
	case c.reason != hook.ReasonTimer:
	case h.FromFirstSeen:
		h.matchedSince, h.lastTick = time.Time{}, time.Time{}
	default:
		h.ticked(c, v.now())
	}
	h.succeed()
}

// recognizeServerChanges handles an API server that stores something else than was written,
// such as defaults. The stored state counts as handled: the resource version excludes writes
// of other clients.
func (p *Pass) recognizeServerChanges(applied []*pendingResponse, desired map[string]any) error {
	var want []string
	for i, stored := range p.watchedDigestsOf(p.object) {
		h := p.handlers[i]
		changed := slices.ContainsFunc(applied, func(o *pendingResponse) bool { return o.call.handler == h && o.changesObject() })
		e := p.writtenEntry(h, applied)
		recorded := e.LatestDigest()
		if !changed || recorded == stored {
			continue
		}
		if want == nil {
			o, err := object.Encode(desired)
			if err != nil {
				return err
			}
			want = p.rules.watchedDigests(o)
		}
		if recorded == want[i] {
			h.serverDigest.recorded, h.serverDigest.actual = recorded, stored
		}
	}
	return nil
}

// watchedState returns the watched fields of the object for a digest: of the handled object with what a response
// changes, or the current one; nil if none has it.
func (v *observation) watchedState(h *state, seen string, applied []*pendingResponse) map[string]any {
	for _, o := range []*object.Object{basis{object: h.handled}.with(h.Handler, patchOf(h, applied)).object, v.object} {
		if o == nil {
			continue
		}
		if part := h.watchedFields(o); lasthandled.Digest(part) == seen {
			return part
		}
	}
	return nil
}
