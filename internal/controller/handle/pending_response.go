package handle

import (
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// pendingResponse is an answer that is not written yet, or not all of it.
type pendingResponse struct {
	call     call
	response *hook.HandlerResponse
	// resolved says that targets are what the answer deletes. Who is deleted is
	// found out once: what takes its place meanwhile stays.
	resolved bool
	targets  []target
	// appliedCount is how many of the objects were applied.
	appliedCount int
	// applied says that only the object itself is to be written now.
	applied bool
	attempt attempt
	// fresh says that this run brought it.
	fresh bool
	// base is the object as the handler saw it, and as our writes of the answer have made
	// it since; former is the handler's progress before the call.
	base           *object.Object
	progressBefore progress
}

// changesObject says whether the answer has something to say of the object itself.
func (o *pendingResponse) changesObject() bool {
	a := o.response
	return a.Patch != nil || a.Status != nil || len(a.Conditions) > 0 || a.Message != ""
}

// recordResponse notes an answer: what is to be written, and the entry that is recorded
// with it.
func (r *run) recordResponse(o *pendingResponse) {
	c, response := o.call, o.response
	h, m := &r.program.Handlers[c.handler], &r.memory.handlers[c.handler]
	m.errorMessage = ""
	r.memory.pending = append(r.memory.pending, o)
	e := r.currentState()[h.Name]
	// What the handler itself writes is no news to it.
	after := r.watchedDigests[c.handler]
	m.afterResponse = nil
	if made := h.afterResponse(r.stored, response); made != nil {
		after = digest(h.watchedFields(made))
		if h.KeepPreviousState {
			m.afterResponse = made
		}
	}
	if e.Digest != "" && e.Digest != after && c.reason != hook.ReasonUpdate && m.isHandled(e.Digest, r.watchedDigests[c.handler]) {
		e.Digest, e.HasRevision = after, false
	}
	if response.RetryAfter > 0 && c.reason != hook.ReasonEvent {
		r.requeueCall(c, response, after)
		if c.reason == hook.ReasonUpdate {
			e.InProgress, e.InProgressSince = after, m.idle.since.Unix()
		}
	} else {
		r.recordDone(c, &e, after)
	}
	if e != (entry{}) {
		m.pendingEntry, m.digestBefore = &e, r.watchedDigests[c.handler]
	}
	if response.Conditions != nil {
		r.memory.conditions = true
	}
}

// recordDone notes that a handler is done with what it was told of.
func (r *run) recordDone(c call, e *entry, after string) {
	m := &r.memory.handlers[c.handler]
	if c.reason != hook.ReasonEvent {
		m.attempt = attempt{}
	}
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate:
		*e = entry{Digest: after, OwnedDigest: e.OwnedDigest}
		m.handled, m.resumed = c.object, true
	case hook.ReasonDelete:
		*e = entry{Done: true}
	case hook.ReasonResume:
		e.Attempts, e.Since = 0, 0
		m.resumed = true
	case hook.ReasonDrift:
		e.Attempts, e.Since, e.OwnedDigest = 0, 0, c.digest
	case hook.ReasonTimer:
		m.lastTick = r.program.Handlers[c.handler].intervalStart(c, r.tools.Now())
	}
}

// requeueCall notes that a handler wants to be told the same once more.
func (r *run) requeueCall(c call, response *hook.HandlerResponse, after string) {
	h, former := &r.program.Handlers[c.handler], r.memory.handlers[c.handler].attempt
	now, delay := r.tools.Now(), response.RetryAfter
	again := attempt{reason: c.reason, digest: c.digest, since: now, requeued: true}
	if delay == hook.Immediately {
		delay = 0
		if former.requeued && former.matches(c) {
			again.immediateRequeues = former.immediateRequeues + 1
			delay = h.delay(nil, again.immediateRequeues)
		}
	}
	again.next = now.Add(delay)
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume:
		again.digest = after
	case hook.ReasonDelete:
		again.digest = deletionDigest(after)
	}
	r.memory.handlers[c.handler].attempt = again
}

// afterResponse is an object as an answer has it; nil if the answer leaves alone what
// the handler watches.
func (h *Handler) afterResponse(o *object.Object, a *hook.HandlerResponse) *object.Object {
	patch := responsePatch(a, h.watchesStatus())
	if patch == nil {
		return nil
	}
	return applyPatch(o, patch)
}

// responsePatch is what an answer changes in the object, as a patch, with or without the
// status; nil if it changes nothing.
func responsePatch(a *hook.HandlerResponse, status bool) map[string]any {
	status = status && a.Status != nil
	if a.Patch == nil && !status {
		return nil
	}
	patch := decodeObject(a.Patch)
	if status {
		patch = combinePatches(patch, map[string]any{"status": decodeObject(a.Status)})
	}
	return patch
}

// applyPatch is an object with a patch; nil if that is none: the server will say what
// is wrong with it.
func applyPatch(o *object.Object, patch map[string]any) *object.Object {
	made, err := newObject(mergePatch(decodeObject(o.JSON()), patch))
	if err != nil {
		return nil
	}
	return made
}

// watchesStatus says whether a field of the status is among those that the handler
// watches; who watches all of an object does not watch its status.
func (h *Handler) watchesStatus() bool {
	return slices.ContainsFunc(h.Fields, func(path []string) bool { return len(path) == 0 || path[0] == "status" })
}

func newObject(fields map[string]any) (*object.Object, error) {
	text, err := json.Marshal(fields)
	if err != nil {
		return nil, err
	}
	return object.Parse(text)
}

// dropSuperseded drops what a handler owes that is about to be told anew.
func (r *run) dropSuperseded(c call) {
	if c.reason == hook.ReasonEvent {
		return
	}
	r.memory.pending = slices.DeleteFunc(r.memory.pending, func(o *pendingResponse) bool {
		return o.call.handler == c.handler && o.call.reason != hook.ReasonEvent
	})
}

// hasConflict says that a field which an answer sets is not as the handler saw it: another
// client, or another handler, wrote it before the answer could be written. What was
// written of the answer itself is in its base.
func (r *run) hasConflict(o *pendingResponse) bool {
	return o.base != nil && len(conflictingFields(o.response, o.base, r.stored, false)) > 0
}

// callAgain drops an answer that was overtaken: the handler is called again, for the object as
// it is.
func (r *run) callAgain(o *pendingResponse) {
	r.memory.pending = slices.DeleteFunc(r.memory.pending, func(other *pendingResponse) bool { return other == o })
	m := &r.memory.handlers[o.call.handler]
	m.progress = o.progressBefore
	if o.call.reason == hook.ReasonEvent {
		m.events = append([]cache.Event{o.call.event}, m.events...)
	}
	r.Log.Debug("conflict: object changed concurrently; calling the handler again", "object", r.stored.Ref().String(),
		"handler", r.program.Handlers[o.call.handler].Name)
}

// hasPending says whether a handler has an answer that is not written yet, but for
// those that are.
func (m *memory) hasPending(handler int, but []*pendingResponse) bool {
	return slices.ContainsFunc(m.pending, func(o *pendingResponse) bool { return o.call.handler == handler && !slices.Contains(but, o) })
}
