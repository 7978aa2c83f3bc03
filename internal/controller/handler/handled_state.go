package handler

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/lasthandled"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// stateWith returns the record to store once the given responses are written: with pending
// entries, except those of handlers with other pending responses, and without the entries of
// removed handlers.
func (r *run) stateWith(applied []*pendingResponse) lasthandled.Record {
	state := lasthandled.Record{}
	for _, h := range r.memory.handlers {
		e := r.writtenEntry(h, applied)
		if r.memory.hasPending(h, applied) || h.pendingEntry == nil && r.isReleased() {
			e = r.storedState[h.Name]
		}
		if e != (lasthandled.Entry{}) {
			state[h.Name] = e
		}
	}
	if len(state) > 0 {
		state[lasthandled.Object] = lasthandled.Entry{Digest: lasthandled.Digest(r.Stored.UID()), Applied: r.appliedText()}
	}
	return state
}

// handledStateOf reads the record of an object, with what former controllers and former names of handlers have left. The
// next write of the record stores the current names.
func (p *Program) handledStateOf(o *object.Object) lasthandled.Record {
	state := p.record().Read(o)
	for _, former := range p.FormerRecords {
		state.TakeOver(former.Read(o))
	}
	for i := range p.Handlers {
		for _, former := range p.Handlers[i].FormerNames {
			state.Rename(former, p.Handlers[i].Name)
		}
	}
	return state
}

// record is where the record of the program is.
func (p *Program) record() lasthandled.Location {
	return lasthandled.Location{Annotation: p.HandledAnnotation, StatusKey: p.HandledStatusKey}
}

// storesStateInStatus reports whether the record is stored in the status.
func (c *Controller) storesStateInStatus() bool {
	return c.program.HandledStatusKey != "" && c.program.Resource.Status && !c.pruned.Load()
}

// storeStateWithStatus writes the responses' changes of the object, and then its status with
// the record.
func (r *run) storeStateWithStatus(ctx context.Context, applied []*pendingResponse, d objectWrite) error {
	patch := r.contentPatch(applied)
	if patch != nil {
		if err := r.patchObject(ctx, patch, d.checkVersion); err != nil {
			return err
		}
	}
	status := r.statusPatch(applied)
	checkVersion := len(status) > 0
	text, differs := r.stateText(applied)
	// Removing our finalizer as the last one deletes the object, which needs no record then.
	deletes := r.Stored.Deleting() && len(r.Stored.Finalizers()) == 1 && r.removesFinalizer(applied)
	if differs = differs && !deletes; differs {
		_, records := lasthandled.Removal(r.Stored, r.program.FormerRecords)
		records = object.CombinePatches(records, map[string]any{r.program.HandledStatusKey: text})
		status = object.CombinePatches(status, map[string]any{lasthandled.StatusField: records})
	}
	var err error
	if d.status, err = r.storeStatus(ctx, status, checkVersion); err != nil {
		return err
	}
	if differs && text != nil && r.Stored.Field(r.program.record().InStatus()...) == nil {
		r.pruned.Store(true)
		r.Log.Warn("the schema prunes the field; handled state is stored in an annotation",
			"object", r.Stored.Ref().String(), "field", "status."+lasthandled.StatusField)
		return r.storeObject(ctx, applied, d)
	}
	if err := r.storeCleanup(ctx, applied); err != nil {
		return err
	}
	return r.recognizeServerChanges(applied, d, patch)
}

// storeCleanup removes the finalizer, and records in annotations, once the record is stored
// in the status.
func (r *run) storeCleanup(ctx context.Context, applied []*pendingResponse) error {
	metadata := map[string]any{}
	if len(r.program.record().ReadStatus(r.Stored)) > 0 {
		annotations, _ := lasthandled.Removal(r.Stored, r.program.FormerRecords)
		if r.Stored.Field(r.program.record().InAnnotation()...) != nil {
			annotations = object.CombinePatches(annotations, map[string]any{r.program.HandledAnnotation: nil})
		}
		if annotations != nil {
			metadata["annotations"] = annotations
		}
	}
	remaining, released := r.remainingFinalizers(applied)
	if released {
		metadata["finalizers"] = remaining
	}
	if len(metadata) == 0 {
		return nil
	}
	return r.patchObject(ctx, map[string]any{"metadata": metadata}, released)
}

// notePruned notes and reports the fields of the status that the API server did not store although responses have set
// them. What another response sets or removes since is its matter.
func (r *run) notePruned(applied []*pendingResponse) {
	want := r.memory.prunedStatus
	for _, o := range applied {
		if o.response.Status != nil {
			want = object.CombinePatches(want, decodeObject(o.response.Status))
		}
	}
	if want == nil || r.detached {
		return
	}
	delete(want, lasthandled.StatusField)
	missing, field := object.Missing(want, decodeObject(r.Stored.Field(statusPart)))
	r.memory.prunedStatus = missing
	if missing != nil && r.memory.prunedNext.IsZero() {
		r.memory.prunedNext = r.tools.Now().Add(controller.PrunedRetry)
	}
	if missing == nil {
		r.memory.prunedNext = time.Time{}
	}
	r.ReportPruned(field)
}

// retryPruned writes the fields of the status again that the API server did not store, in case that the schema of the
// kind has them now: no handler is called for that.
func (r *run) retryPruned(ctx context.Context) error {
	if r.memory.prunedStatus == nil || r.memory.prunedNext.After(r.tools.Now()) && !r.retriesCalls() {
		return nil
	}
	r.memory.prunedNext = r.tools.Now().Add(controller.PrunedRetry)
	var err error
	if r.program.Resource.Status {
		_, err = r.storeStatus(ctx, r.memory.prunedStatus, true)
	} else {
		err = r.patchObject(ctx, map[string]any{statusPart: r.memory.prunedStatus}, true)
	}
	if err != nil {
		return r.writeError(ctx, err)
	}
	r.notePruned(nil)
	return r.refresh(ctx)
}

// loadPreviousStates is the step that loads what handlers handled in an earlier process, if
// the object has changed since. It makes one request for such an object, and none for an
// unchanged one.
func (r *run) loadPreviousStates(ctx context.Context) error {
	if r.Phase != controller.PhaseManaged || r.memory.revisions.listed || !r.program.KeepsPreviousState() {
		return nil
	}
	if slices.ContainsFunc(r.memory.handlers, (*handlerMemory).lacksPreviousState) {
		return r.previousStateError(r.listRevisions(ctx))
	}
	return nil
}

// lacksPreviousState reports whether only a revision has the previous state.
func (m *handlerMemory) lacksPreviousState() bool {
	return m.KeepPreviousState && m.handled == nil && m.entry().HasRevision
}

// previousStateError returns the error of a failed list, or nil after reporting it: a rejected
// request is not worth a retry.
func (r *run) previousStateError(err error) error {
	if err == nil {
		return nil
	}
	if apply.Unreachable(err) {
		return failure.WithReason(ReasonReadFailed, err)
	}
	r.memory.revisions.listed = true
	r.reportPreviousState(ReasonPreviousStateLost, fmt.Errorf("previous state unknown: %w", err))
	return nil
}

// listRevisions lists, once, the revisions of an object and restores the states that handlers
// need. It makes no request if the record names no revision.
func (r *run) listRevisions(ctx context.Context) error {
	k := &r.memory.revisions
	if k.listed {
		return nil
	}
	if !slices.ContainsFunc(slices.Collect(maps.Values(r.storedState)), func(e lasthandled.Entry) bool { return e.HasRevision }) {
		k.listed = true
		return nil
	}
	selector := fmt.Sprintf("%s=%s,%s=%s", objectLabel, r.Stored.UID(), annotationLabel, r.program.annotationName())
	found, err := r.writer().List(ctx, plan.ControllerRevisions, r.program.revisionNamespace(r.Stored), selector)
	if err != nil {
		return fmt.Errorf("list the revisions of %s: %w", r.Stored.Ref(), err)
	}
	k.listed = true
	for _, revision := range found {
		if revision.Deleting() {
			continue
		}
		if err := k.add(revision); err != nil {
			return err
		}
	}
	r.restorePreviousStates(found)
	return nil
}

// restorePreviousStates sets the handled states of handlers from revisions.
func (r *run) restorePreviousStates(found []*object.Object) {
	for _, h := range r.memory.handlers {
		if !h.lacksPreviousState() {
			continue
		}
		var err error
		if h.handled, err = r.previousStateIn(found, h.entry().Digest); err != nil {
			r.reportPreviousState(ReasonPreviousStateLost, fmt.Errorf("previous state of handler %s unknown: %w", h.title(), err))
		}
	}
}

// previousStateIn returns the object as an entry has seen it.
func (r *run) previousStateIn(found []*object.Object, seen string) (*object.Object, error) {
	name := r.program.revisionName(r.Stored.UID(), seen)
	i := slices.IndexFunc(found, func(revision *object.Object) bool { return revision.Name() == name })
	if i < 0 {
		return nil, fmt.Errorf("ControllerRevision %s was deleted", name)
	}
	part, sound := revisionState(found[i], seen)
	if !sound {
		return nil, fmt.Errorf("another client changed %s", found[i].Ref())
	}
	return previousObject(r.Stored, part)
}

// setProgress records what a response returned as progress; nil for none. It belongs to the state
// that the handler has seen in all of its calls.
func (m *handlerMemory) setProgress(e *lasthandled.Entry, c call, seen basis, progress json.RawMessage) {
	e.SetProgress(progress, c.reason, seen.digest)
	if progress != nil {
		m.progressObject = seen.object
	}
}

// removalsResetAfter is how long a record must stay until earlier removals do not count any
// more.
const removalsResetAfter = time.Minute

// restoreState writes the record again after another client removed or changed it. The memory
// has the record, so no handler is called: otherwise a tool that keeps writing its own form of
// the object would cause a loop. An object that is being deleted and is released needs no record.
func (r *run) restoreState() {
	lost := false
	for _, h := range r.memory.handlers {
		e := r.storedState[h.Name]
		switch {
		case e != lasthandled.Entry{}:
			h.storedEntry = e
		case h.storedEntry != lasthandled.Entry{} && h.pendingEntry == nil && !r.isReleased():
			kept := h.storedEntry
			h.pendingEntry, lost = &kept, true
		}
	}
	if lost {
		r.noteStateRemoval()
	}
}

// isReleased reports whether the object is being deleted and does not wait for the handlers.
func (r *run) isReleased() bool { return r.Stored.Deleting() && !r.program.hasFinalizer(r.Stored) }

// noteStateRemoval schedules the write of the record: at once, but later with each removal.
func (r *run) noteStateRemoval() {
	now, losses := r.tools.Now(), &r.memory.stateRemovals
	if now.Sub(losses.since) > removalsResetAfter {
		losses.count = 0
	}
	losses.since = now
	if losses.count > 0 {
		losses.next = now.Add(backoff(losses.count, firstDelay, longestDelay, r.tools.Queue.Random))
	}
	losses.count++
	r.Log.Info("another client removed the handled state; writing it again", "object", r.Stored.Ref().String())
}

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
		return basis{lasthandled.Digest(h.watchedFields(changed)), changed}
	}
	return b
}

// basisOf returns the basis of a call: the object that it has, unless there is progress and another client
// has changed the object since. Events come between the calls with progress.
func (m *handlerMemory) basisOf(c call) (b basis, outdated bool) {
	e := m.entry()
	former := basis{e.ProgressDigest(), m.progressObject}
	if (e.HasProgress(c.reason) || c.reason == hook.ReasonEvent && e.Progress != "") && !m.isAt(former) {
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

// isAt reports whether the watched fields are as a handler has seen them, or will be once its responses are written,
// of which a part may be.
func (m *handlerMemory) isAt(seen basis) bool {
	return m.isStoredAs(seen.digest) ||
		m.unwritten.patch != nil && seen.with(m.Handler, m.unwritten.patch).digest == m.unwritten.watched
}

// writtenEntry returns the entry of a handler once these responses are written.
func (r *run) writtenEntry(h *handlerMemory, applied []*pendingResponse) lasthandled.Entry {
	e := h.entry()
	if patch := patchOf(h, applied); patch != nil {
		e, _ = r.moveEntry(h, h.progress, patch)
	}
	if h.KeepPreviousState && e.Digest != "" && e.Digest == h.revisionDigest {
		e.HasRevision = true
	}
	return e
}

// moveEntry returns an entry of a handler with a change of its own added to the states that it has seen.
func (r *run) moveEntry(h *handlerMemory, p progress, patch map[string]any) (e lasthandled.Entry, moved bool) {
	former := cmp.Or(p.pendingEntry, &h.storedEntry)
	e = *former
	recorded, inDeletion := e.Digest, e.Failed && r.Stored.Deleting() && len(e.Digest) > len(h.watched)
	if inDeletion {
		recorded = lasthandled.CutDeletion(recorded) // Which a digest may begin with as well.
	}
	handled, stored := basis{recorded, p.handled}.with(h.Handler, patch), basis{h.watched, r.Stored}.with(h.Handler, patch)
	if recorded != "" && (h.isStoredAs(recorded) || stored.digest == handled.digest) { // A part may be written before.
		e.Edition = r.editionOf(h.Handler, stored.object)
	}
	switch {
	case recorded == "" || handled.digest == recorded:
	case inDeletion:
		e.Digest = lasthandled.DeletionDigest(handled.digest)
	default:
		e.Digest, e.HasRevision = handled.digest, false
	}
	e.MoveProgress(basis{e.ProgressDigest(), p.progressObject}.with(h.Handler, patch).digest)
	if e.InProgress != "" {
		e.InProgress = stored.digest
	}
	return e, e != *former
}

// changeWritten adds a change of the handler itself that is stored to what it has seen, even if the rest of the response
// never is.
func (r *run) changeWritten(h *handlerMemory, patch map[string]any) {
	for _, p := range r.memory.seenBy(h) {
		if e, moved := r.moveEntry(h, *p, patch); moved {
			p.pendingEntry = &e
		}
		if p.firstDigest != "" {
			p.firstDigest = basis{p.firstDigest, p.handled}.with(h.Handler, patch).digest
		}
		p.handled = basis{object: p.handled}.with(h.Handler, patch).object
		p.progressObject = basis{object: p.progressObject}.with(h.Handler, patch).object
	}
}

// entryWritten updates what the memory has of a handler after these responses and the record were written.
func (r *run) entryWritten(h *handlerMemory, applied []*pendingResponse) {
	if patch := patchOf(h, applied); patch != nil {
		r.changeWritten(h, patch)
		defer r.noteUnwritten(h)
	}
	e := r.writtenEntry(h, applied)
	switch {
	case e == h.entry() && h.pendingEntry == nil:
	case r.memory.hasPending(h, nil):
		h.pendingEntry = &e
	default:
		h.storedEntry, h.pendingEntry = e, nil
	}
}
