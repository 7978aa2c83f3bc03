package handler

import (
	"strings"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// An entry is about what a handler has seen stored. What its responses change in the object is no part of that until it
// is written: neither the change nor that it is still missing is an edit. A write changes what is stored and what the
// handler has seen alike, so that a handler does not trigger itself.

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
		return basis{digest(h.watchedFields(changed)), changed}
	}
	return b
}

// basisOf returns the basis of a call: the object that it has, unless there is progress and another client
// has changed the object since. Events come between the calls with progress.
func (m *handlerMemory) basisOf(c call) (b basis, outdated bool) {
	e := m.entry()
	former := basis{e.progressDigest(), m.progressObject}
	if (e.hasProgress(c.reason) || c.reason == hook.ReasonEvent && e.Progress != "") && !m.isAt(former) {
		return former, true
	}
	return basis{c.watched, c.object}, false
}

// unwritten is what the pending responses of a handler change in the object.
type unwritten struct {
	// patch is nil if they change nothing.
	patch map[string]any
	// watched is the digest of the watched fields once they are written.
	watched string
}

// noteUnwritten updates what is unwritten, after a change of the object or of the pending responses.
func (r *run) noteUnwritten(h *handlerMemory) {
	patch := patchOf(h, r.memory.pending)
	h.unwritten = unwritten{patch, basis{h.watched, r.Stored}.with(h.Handler, patch).digest}
}

// patchOf returns what those of the responses that are a handler's change in the object; nil if nothing.
func patchOf(h *handlerMemory, responses []*pendingResponse) map[string]any {
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

// whenWritten returns the digest of the watched fields once all responses are written.
func (m *handlerMemory) whenWritten() string { return m.unwritten.watched }

// isAt reports whether the watched fields are as a handler has seen them, or will be once its responses are written,
// of which a part may be.
func (m *handlerMemory) isAt(seen basis) bool {
	return m.isStoredAs(seen.digest) ||
		m.unwritten.patch != nil && seen.with(m.Handler, m.unwritten.patch).digest == m.unwritten.watched
}

// writtenEntry returns the entry of a handler once these responses are written.
func (r *run) writtenEntry(h *handlerMemory, applied []*pendingResponse) entry {
	e := h.entry()
	if patch := patchOf(h, applied); patch != nil {
		r.moveEntry(h, &e, patch)
	}
	if h.KeepPreviousState && e.Digest != "" && e.Digest == h.revisionDigest {
		e.HasRevision = true
	}
	return e
}

// moveEntry adds a change of the handler itself to the states that it has seen.
func (r *run) moveEntry(h *handlerMemory, e *entry, patch map[string]any) {
	recorded, inDeletion := e.Digest, e.Failed && r.Stored.Deleting() && len(e.Digest) > len(h.watched)
	if inDeletion {
		recorded = strings.TrimPrefix(recorded, deletionPrefix) // Which a digest may begin with as well.
	}
	handled := basis{recorded, h.handled}.with(h.Handler, patch)
	if recorded != "" && h.isStoredAs(recorded) { // As it was before the writes of this response.
		e.edition = r.editionOf(h.Handler, basis{object: r.Stored}.with(h.Handler, patch).object)
	}
	switch {
	case recorded == "" || handled.digest == recorded:
	case inDeletion:
		e.Digest = deletionDigest(handled.digest)
	default:
		e.Digest, e.HasRevision = handled.digest, false
	}
	e.moveProgress(basis{e.progressDigest(), h.progressObject}.with(h.Handler, patch).digest)
	if e.InProgress != "" {
		e.InProgress = basis{h.watched, r.Stored}.with(h.Handler, patch).digest
	}
}

// partWritten notes that a part of the response in progress is stored, which the handler need not see even if the rest
// never is.
func (r *run) partWritten(patch map[string]any) {
	if r.writing != nil && r.writing.call.handler != nil {
		h := r.writing.call.handler
		h.handled = basis{object: h.handled}.with(h.Handler, patch).object
	}
}

// entryWritten updates what the memory has of a handler after these responses and the record were written.
func (r *run) entryWritten(h *handlerMemory, applied []*pendingResponse) {
	e, patch := r.writtenEntry(h, applied), patchOf(h, applied)
	switch {
	case e == h.entry() && h.pendingEntry == nil:
	case r.memory.hasPending(h, nil):
		h.pendingEntry = &e
	default:
		h.storedEntry, h.pendingEntry = e, nil
	}
	if patch == nil {
		return
	}
	handled := basis{h.firstDigest, h.handled}.with(h.Handler, patch)
	h.handled, h.progressObject = handled.object, basis{object: h.progressObject}.with(h.Handler, patch).object
	if h.firstDigest != "" {
		h.firstDigest = handled.digest
	}
	r.noteUnwritten(h)
}
