package handler

import (
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
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
	failed *handlerError
}

// changesObject reports whether the response changes the object itself.
func (o *pendingResponse) changesObject() bool {
	a := o.response
	return a.Patch != nil || a.Status != nil || len(a.Conditions) > 0 || a.Message != ""
}

// recordResponse records a response: what to write, and the entry to store with it.
func (r *run) recordResponse(o *pendingResponse) {
	c, response := o.call, o.response
	h := c.handler
	h.failed = nil
	seen, _ := h.basisOf(c)
	e := h.entry()
	o.ownedBefore = e.OwnedDigest
	r.memory.pending = append(r.memory.pending, o)
	r.noteUnwritten(h)
	after := h.whenWritten()
	switch {
	case c.reason == hook.ReasonEvent, response.Err != nil && response.Progress == nil:
		// The former progress remains.
	case response.Err != nil:
		h.setProgress(&e, c, seen, response.Progress)
	case response.RetryAfter <= 0:
		r.settle(c, &e, seen, false)
	default:
		r.requeueCall(c, response, after)
		h.setProgress(&e, c, seen, response.Progress)
		if c.reason == hook.ReasonUpdate {
			e.InProgress, e.InProgressSince = h.watched, h.watchedSince.Unix()
		}
	}
	if h.handles(hook.ReasonDrift) && c.reason != hook.ReasonEvent && response.Err == nil && e.Digest != "" {
		e.OwnedDigest = r.ownedDigest
	}
	if e != (entry{}) {
		h.pendingEntry = &e
	}
	if response.Conditions != nil {
		r.memory.conditions = true
	}
	if response.Err != nil {
		r.handlerFailed(c, c.digestAfter(after), response.Err)
		o.failed = h.failed
	}
}

// settle records that a handler has handled the input of a call, or gave up on it. It changes
// the entry of the handler; seen is the state that the handler has seen in all of its calls.
func (r *run) settle(c call, e *entry, seen basis, gaveUp bool) {
	h := c.handler
	h.attempt, e.Attempts, e.Since = attempt{}, 0, 0
	h.relatedChanged = false
	e.clearProgress()
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate:
		*e = entry{Digest: seen.digest, edition: r.editionOf(h.Handler, seen.object), Failed: gaveUp, OwnedDigest: e.OwnedDigest}
		h.handled, h.resumed, h.editUndone = seen.object, true, false
	case hook.ReasonDelete:
		*e = entry{Done: true}
		if gaveUp && !h.Optional {
			*e = entry{Digest: deletionDigest(seen.digest), Failed: true}
			h.handled = seen.object
		}
	case hook.ReasonResume:
		h.resumed, e.Dropped = true, e.Dropped && gaveUp
	case hook.ReasonDrift:
		e.OwnedDigest, e.Dropped = c.digest, e.Dropped && gaveUp
	case hook.ReasonRelated:
		e.Dropped = e.Dropped && gaveUp
	case hook.ReasonTimer:
		h.ticked(c, r.tools.Now())
	}
}

// requeueCall records that a handler requested another call.
func (r *run) requeueCall(c call, response *hook.HandlerResponse, after string) {
	h, former := c.handler, c.handler.attempt
	now, delay := r.tools.Now(), response.RetryAfter
	again := attempt{reason: c.reason, digest: c.digestAfter(after), digestBefore: c.digest, since: now, requeued: true}
	if delay < time.Millisecond { // Such as hook.Immediately.
		delay = 0
		if former.requeued && former.hasInput(c) {
			again.immediateRequeues = former.immediateRequeues + 1
			delay = h.delay(nil, again.immediateRequeues, r.tools.Queue.Random)
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
	patch := decodeObject(a.Patch)
	if status {
		patch = object.CombinePatches(patch, map[string]any{"status": decodeObject(a.Status)})
	}
	return patch
}

// applyPatch returns an object with a patch; nil if the result is invalid, which the server
// will report.
func applyPatch(o *object.Object, patch map[string]any) *object.Object {
	made, err := object.Encode(object.MergePatch(decodeObject(o.JSON()), patch))
	if err != nil {
		return nil
	}
	return made
}

// watchesStatus reports whether the handler watches a field of the status. A handler that
// watches the whole object does not.
func (h *Handler) watchesStatus() bool {
	return slices.ContainsFunc(h.Fields, func(path []string) bool { return len(path) == 0 || path[0] == "status" })
}

// dropSuperseded drops the pending responses of a handler that is about to be called again for something newer.
func (r *run) dropSuperseded(c call) {
	h := c.handler
	for _, o := range slices.Clone(r.memory.pending) {
		if o.call.handler != h || !c.supersedes(o.call.reason) {
			continue
		}
		r.drop(o)
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

// supersedes reports whether a response to a call replaces one for a former call that is still to be written. An event
// is a matter of its own, and a timer says nothing about a change.
func (c *call) supersedes(former hook.Reason) bool {
	switch {
	case c.reason == hook.ReasonEvent || former == hook.ReasonEvent:
		return false
	case c.reason == hook.ReasonTimer:
		return former == hook.ReasonTimer
	}
	return true
}

// hasConflict reports whether a field that a response sets has changed since the handler saw
// it, by another client or another handler. The base includes what was written of the response
// itself.
func (r *run) hasConflict(o *pendingResponse) bool {
	return o.base != nil && len(conflictingFields(o.response, o.base, r.Stored, false)) > 0
}

// callAgain drops a conflicting response, so that the handler is called again for the current
// object.
func (r *run) callAgain(o *pendingResponse) {
	r.drop(o)
	h := o.call.handler
	if o.call.reason == hook.ReasonEvent {
		h.events = append([]observedEvent{o.call.event}, h.events...)
	} else {
		h.progress = o.progressBefore
	}
	r.Log.Debug("conflict: object changed concurrently; calling the handler again", "object", r.Stored.Ref().String(),
		"handler", h.Name)
}

// hasPending reports whether a handler has a pending response that is not among those given.
func (m *memory) hasPending(h *handlerMemory, but []*pendingResponse) bool {
	return slices.ContainsFunc(m.pending, func(o *pendingResponse) bool { return o.call.handler == h && !slices.Contains(but, o) })
}

// hasUnwritten reports whether a handler has a pending response to something else than an event or a timer.
func (m *memory) hasUnwritten(h *handlerMemory) bool {
	return slices.ContainsFunc(m.pending, func(o *pendingResponse) bool {
		return o.call.handler == h && o.call.reason != hook.ReasonEvent && o.call.reason != hook.ReasonTimer
	})
}

// removePending removes responses that need no further write.
func (m *memory) removePending(these ...*pendingResponse) {
	m.pending = slices.DeleteFunc(m.pending, func(o *pendingResponse) bool { return slices.Contains(these, o) })
}

// drop removes a response that is not written any more.
func (r *run) drop(o *pendingResponse) {
	r.memory.removePending(o)
	r.noteUnwritten(o.call.handler)
}
