package handler

import (
	"cmp"

	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// writtenEntry returns the entry of a handler once these responses are written.
func (v *observation) writtenEntry(h *state, applied []*pendingResponse) lasthandled.Entry {
	e := h.entry()
	if patch := patchOf(h, applied); patch != nil {
		e, _ = v.moveEntry(h, h.progress, patch)
	}
	if h.KeepPreviousState && e.Digest != "" && e.Digest == h.revisionDigest {
		e.HasRevision = true
	}
	return e
}

// moveEntry returns an entry of a handler with a change of its own added to the states that it has seen.
func (v *observation) moveEntry(h *state, from progress, patch map[string]any) (e lasthandled.Entry, moved bool) {
	former := cmp.Or(from.pendingEntry, &h.storedEntry)
	e = *former
	recorded, inDeletion := e.Digest, e.Failed && v.object.Deleting() && len(e.Digest) > len(h.watched)
	if inDeletion {
		recorded = lasthandled.CutDeletion(recorded) // Which a digest may begin with as well.
	}
	stored := basis{h.watched, v.object}.with(h.Handler, patch)
	handled := stored
	if from.handled != v.object {
		handled = basis{recorded, from.handled}.with(h.Handler, patch)
	}
	if recorded != "" && (h.isStoredAs(recorded) || stored.digest == handled.digest) { // A part may be written before.
		e.Edition = v.editionOf(h.Handler, stored.object)
	}
	switch {
	case recorded == "" || handled.digest == recorded:
	case inDeletion:
		e.Digest = lasthandled.DeletionDigest(handled.digest)
	default:
		e.Digest, e.HasRevision = handled.digest, false
	}
	e.MoveProgress(basis{e.ProgressDigest(), from.progressObject}.with(h.Handler, patch).digest)
	if e.InProgress != "" {
		e.InProgress = stored.digest
	}
	return e, e != *former
}

// changeWritten adds a change of the handler itself that is stored to what it has seen, even if the rest of the response
// never is.
func (p *Pass) changeWritten(h *state, patch map[string]any) {
	for _, seen := range p.seenBy(h) {
		if e, moved := p.moveEntry(h, *seen, patch); moved {
			seen.pendingEntry = &e
		}
		if seen.firstDigest != "" {
			seen.firstDigest = basis{seen.firstDigest, seen.handled}.with(h.Handler, patch).digest
		}
		seen.handled = basis{object: seen.handled}.with(h.Handler, patch).object
		seen.progressObject = basis{object: seen.progressObject}.with(h.Handler, patch).object
	}
}

// entryWritten updates what the memory has of a handler after these responses and the record were written.
func (p *Pass) entryWritten(h *state, applied []*pendingResponse) {
	if patch := patchOf(h, applied); patch != nil {
		p.changeWritten(h, patch)
		defer p.noteUnwritten(h)
	}
	e := p.writtenEntry(h, applied)
	switch {
	case e == h.entry() && h.pendingEntry == nil:
	case p.hasPending(h, nil):
		h.pendingEntry = &e
	default:
		h.storedEntry, h.pendingEntry = e, nil
	}
}

// stateWith returns the record to store once the given responses are written: with pending
// entries, except those of handlers with other pending responses, and without the entries of
// removed handlers.
func (p *Pass) stateWith(applied []*pendingResponse, appliedObjects string) lasthandled.Record {
	state := lasthandled.Record{}
	for _, h := range p.handlers {
		e := p.writtenEntry(h, applied)
		if p.hasPending(h, applied) || h.pendingEntry == nil && p.isReleased() {
			e = p.recorded[h.Name]
		}
		if e != (lasthandled.Entry{}) {
			state[h.Name] = e
		}
	}
	if len(state) > 0 {
		state[lasthandled.Object] = lasthandled.Entry{Digest: lasthandled.Digest(p.object.UID()), Applied: appliedObjects}
	}
	return state
}

// restoreState writes the record again after another client removed or changed it. The memory
// has the record, so no handler is called: otherwise a tool that keeps writing its own form of
// the object would cause a loop. An object that is being deleted and is released needs no record.
func (p *Pass) restoreState() (lost bool) {
	for _, h := range p.handlers {
		e := p.recorded[h.Name]
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

// isReleased reports whether the object is being deleted and does not wait for the handlers.
func (v *observation) isReleased() bool {
	return v.object.Deleting() && !v.rules.hasFinalizer(v.object)
}

// editionOf returns the edition of an object that a handler has handled: that is stored, or what a response makes of
// it. It is zero if the object is nil, which means unknown.
func (v *observation) editionOf(h *Handler, handled *object.Object) lasthandled.Edition {
	if handled == nil || !v.rules.countsEdits(h, handled) {
		return lasthandled.Edition{}
	}
	e := lasthandled.Edition{Generation: handled.Generation()}
	if len(h.Fields) > 0 {
		e.Counted = countedDigest(handled)
	}
	if handled != v.object && handled.Version() == v.object.Version() && countedDigest(handled) != countedDigest(v.object) {
		e.Generation++ // The write of the response counts as well.
	}
	return e
}

// watchedDigestsOf returns the watched digests of the stored object or a former version of it.
func (v *observation) watchedDigestsOf(o *object.Object) []string {
	if d := &v.digests; d.object != o {
		if d.object == nil || !v.rules.differsOnlyInStatus(d.object, o) {
			d.watched = v.rules.watchedDigests(o)
		}
		d.object = o
	}
	return v.digests.watched
}

// state returns the digest of the whole object: the handler may look at any part of it.
func (v *observation) state() string {
	if d := &v.digests; d.state == "" || d.stateOf != v.object {
		d.stateOf, d.state = v.object, v.rules.stateDigest(v.object)
	}
	return v.digests.state
}
