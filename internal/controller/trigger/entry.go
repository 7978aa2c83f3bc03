package trigger

import (
	"cmp"
	"encoding/json"

	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// An entry is about what a handler has seen stored. What its responses change in the object is no part of that until it
// is written: neither the change nor that it is still missing is an edit. A write changes what is stored and what the
// handler has seen alike, so that a handler does not trigger itself.

// WrittenEntry returns the entry of a handler once these responses are written.
func (v *Observation) WrittenEntry(h *State, applied []*Response) lasthandled.Entry {
	e := h.Entry()
	if patch := patchOf(h, applied); patch != nil {
		e, _ = v.moveEntry(h, h.Progress, patch)
	}
	return e
}

// moveEntry returns an entry of a handler with a change of its own added to the states that it has seen.
func (v *Observation) moveEntry(h *State, from Progress, patch map[string]any) (e lasthandled.Entry, moved bool) {
	former := cmp.Or(from.pendingEntry, &h.storedEntry)
	e = *former
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
	return e, e != *former
}

// ChangeWritten adds a change of the handler itself that is stored to what it has seen, even if the rest of the response
// never is.
func (p *Pass) ChangeWritten(h *State, patch map[string]any) {
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

// entryWritten updates what the memory has of a handler after these responses and the record were written.
func (p *Pass) entryWritten(h *State, applied []*Response) {
	if patch := patchOf(h, applied); patch != nil {
		p.ChangeWritten(h, patch)
		defer p.noteUnwritten(h)
	}
	e := p.WrittenEntry(h, applied)
	switch {
	case e == h.Entry() && h.pendingEntry == nil:
	case p.HasPending(h, nil):
		h.pendingEntry = &e
	default:
		h.storedEntry, h.pendingEntry = e, nil
	}
}

// StateWith returns the record to store once the given responses are written: with pending
// entries, except those of handlers with other pending responses, and without the entries of
// removed handlers.
func (p *Pass) StateWith(applied []*Response, appliedObjects string) lasthandled.Record {
	state := lasthandled.Record{}
	for _, h := range p.Handlers {
		e := p.WrittenEntry(h, applied)
		if p.HasPending(h, applied) || h.pendingEntry == nil && p.isReleased() {
			e = p.Recorded[h.Name]
		}
		if e != (lasthandled.Entry{}) {
			state[h.Name] = e
		}
	}
	if len(state) > 0 {
		state[lasthandled.Object] = lasthandled.Entry{
			Digest: lasthandled.Digest(p.Object.UID()), Applied: appliedObjects, States: p.statesOf(state, applied),
		}
	}
	return state
}

// maxStates limits the handled states in a record. The API server limits all annotations of an object to 256 KiB, of
// which maxAnnotations leaves some for the rest of the record.
const (
	maxStates      = 64_000
	maxAnnotations = 240_000
)

// statesOf returns the handled states that go into a record, for handlers that need them after a restart. It notes the
// handlers whose states are too large.
func (p *Pass) statesOf(state lasthandled.Record, applied []*Response) lasthandled.JSON {
	former, states := p.Recorded.States(), map[string]json.RawMessage{}
	others := len(p.Object.Field("metadata", "annotations")) - len(p.Object.Field(p.Rules.Record.InAnnotation()...))
	left := min(maxStates, maxAnnotations-others)
	p.Unstored = nil
	for _, h := range p.Handlers {
		digest := state[h.Name].Digest
		if !h.KeepPreviousState || digest == "" || states[digest] != nil {
			continue
		}
		part := former[digest]
		if part == nil {
			part = p.watchedState(h, digest, applied)
		}
		if left -= len(part); left < 0 {
			left += len(part)
			p.Unstored = append(p.Unstored, h.Title())
			continue
		}
		if part != nil {
			states[digest] = part
		}
	}
	if len(states) == 0 {
		return ""
	}
	text, _ := json.Marshal(states) // JSON always encodes.
	return lasthandled.JSON(text)
}

// watchedState returns the watched fields with a digest: of the handled object with what a response changes, or of the
// current one; nil if none has it.
func (p *Pass) watchedState(h *State, seen string, applied []*Response) json.RawMessage {
	for _, o := range []*object.Object{basis{object: h.Handled}.with(h.Handler, patchOf(h, applied)).object, p.Object} {
		if o == nil {
			continue
		}
		if part := h.WatchedFields(o); lasthandled.Digest(part) == seen {
			text, _ := json.Marshal(part) // It was decoded from JSON.
			return text
		}
	}
	return nil
}

// restoreHandled sets what a handler has handled in an earlier process, if the record has it: the watched fields.
func (p *Pass) restoreHandled(h *State) {
	if !h.KeepPreviousState || h.Handled != nil {
		return
	}
	part := p.Recorded.State(h.Entry().Digest)
	if part == nil {
		return
	}
	metadata := map[string]any{"name": p.Object.Name(), "uid": p.Object.UID()}
	if p.Object.Namespace() != "" {
		metadata["namespace"] = p.Object.Namespace()
	}
	whole := map[string]any{"apiVersion": p.Object.APIVersion(), "kind": p.Object.Kind(), "metadata": metadata}
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
	patch := patchOf(h, p.Responses)
	h.unwritten = unwritten{patch, basis{h.watched, p.Object}.with(h.Handler, patch).Digest}
}
