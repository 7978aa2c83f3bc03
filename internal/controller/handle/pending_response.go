package handle

import (
	"slices"

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
	// progressBefore is the handler's progress before the call, for another call.
	base           *object.Object
	progressBefore progress
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
	r.memory.pending = append(r.memory.pending, o)
	e := h.entry()
	// A handler's own writes do not trigger it.
	before, outdated := h.basisOf(c)
	now := basis{h.watched, r.Stored}.with(h.Handler, response)
	after, handled := now.digest, now
	if outdated {
		handled = before.with(h.Handler, response)
	}
	h.afterResponse = nil
	if h.KeepPreviousState && now.object != r.Stored {
		h.afterResponse = now.object
	}
	if e.Digest != "" && e.Digest != after && c.reason != hook.ReasonUpdate && h.isHandled() {
		e.Digest, e.HasRevision, e.edition = after, false, r.editionOf(h.Handler, now.object)
	}
	switch {
	case c.reason == hook.ReasonEvent, response.Err != nil && response.Progress == nil:
		// The former progress remains.
		e.moveProgress(handled.digest)
	case response.Err != nil:
		e.setProgress(c.reason, handled.digest, response.Progress)
	case response.RetryAfter <= 0:
		r.settle(c, &e, handled, false)
	default:
		r.requeueCall(c, response, after)
		e.setProgress(c.reason, handled.digest, response.Progress)
		if c.reason == hook.ReasonUpdate {
			e.InProgress, e.InProgressSince = after, h.watchedSince.Unix()
		}
	}
	h.progressObject = handled.object
	if e != (entry{}) {
		h.pendingEntry, h.digestBefore = &e, h.watched
		if outdated && e.Progress != "" {
			h.digestBefore = ""
		}
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
// the entry of the handler; handled is the state that the handler has seen in all of its calls.
func (r *run) settle(c call, e *entry, handled basis, gaveUp bool) {
	h := c.handler
	h.attempt, e.Attempts, e.Since = attempt{}, 0, 0
	h.relatedChanged = false
	e.clearProgress()
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate:
		*e = entry{Digest: handled.digest, edition: r.editionOf(h.Handler, handled.object), Failed: gaveUp, OwnedDigest: e.OwnedDigest}
		h.handled, h.resumed, h.editUndone = handled.object, true, false
	case hook.ReasonDelete:
		*e = entry{Done: true}
		if gaveUp && !h.Optional {
			*e = entry{Digest: handled.digest, Failed: true}
		}
	case hook.ReasonResume:
		h.resumed = true
	case hook.ReasonDrift:
		e.OwnedDigest = c.digest
	case hook.ReasonTimer:
		h.ticked(c, r.tools.Now())
	}
}

// requeueCall records that a handler requested another call.
func (r *run) requeueCall(c call, response *hook.HandlerResponse, after string) {
	h, former := c.handler, c.handler.attempt
	now, delay := r.tools.Now(), response.RetryAfter
	again := attempt{reason: c.reason, digest: c.digestAfter(after), digestBefore: c.digest, since: now, requeued: true}
	if delay == hook.Immediately {
		delay = 0
		if former.requeued && former.hasInput(c) {
			again.immediateRequeues = former.immediateRequeues + 1
			delay = h.delay(nil, again.immediateRequeues, r.tools.Queue.Random)
		}
	}
	again.next = now.Add(delay)
	h.attempt = again
}

// withResponse returns an object with a response applied; nil if the response changes no
// watched field.
func (h *Handler) withResponse(o *object.Object, a *hook.HandlerResponse) *object.Object {
	patch := responsePatch(a, h.watchesStatus())
	if patch == nil {
		return nil
	}
	return applyPatch(o, patch)
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

// dropSuperseded drops the pending response of a handler that is about to be called again.
func (r *run) dropSuperseded(c call) {
	if c.reason == hook.ReasonEvent {
		return
	}
	r.memory.pending = slices.DeleteFunc(r.memory.pending, func(o *pendingResponse) bool {
		return o.call.handler == c.handler && o.call.reason != hook.ReasonEvent
	})
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
	r.memory.pending = slices.DeleteFunc(r.memory.pending, func(other *pendingResponse) bool { return other == o })
	h := o.call.handler
	h.progress = o.progressBefore
	if o.call.reason == hook.ReasonEvent {
		h.events = append([]observedEvent{o.call.event}, h.events...)
	}
	r.Log.Debug("conflict: object changed concurrently; calling the handler again", "object", r.Stored.Ref().String(),
		"handler", h.Name)
}

// hasPending reports whether a handler has a pending response that is not among those given.
func (m *memory) hasPending(h *handlerMemory, but []*pendingResponse) bool {
	return slices.ContainsFunc(m.pending, func(o *pendingResponse) bool { return o.call.handler == h && !slices.Contains(but, o) })
}

// removePending drops responses that need no further write.
func (m *memory) removePending(these ...*pendingResponse) {
	m.pending = slices.DeleteFunc(m.pending, func(o *pendingResponse) bool { return slices.Contains(these, o) })
}
