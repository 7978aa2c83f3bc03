package handler

import (
	"context"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/failure"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// entry is the record of one handler: digests of what it has handled, never a copy of the
// object.
type entry struct {
	// Digest is the digest of the watched fields that the handler last handled; empty if it
	// never did.
	Digest string `json:"seen,omitempty"`
	// Failed means that the handler gave up on that state.
	Failed bool `json:"failed,omitempty"`
	// Dropped means that its response for that state was dropped before it was written, for a call that has not
	// succeeded since.
	Dropped bool `json:"dropped,omitempty"`
	edition
	// HasRevision means that a ControllerRevision has the state of Digest.
	HasRevision bool `json:"kept,omitempty"`
	// OwnedDigest is the digest of the owned objects that handlers applied, for a Drift handler. Applied names these
	// objects, in the entry with the UID.
	OwnedDigest string `json:"owned,omitempty"`
	Applied     string `json:"applied,omitempty"`
	// Attempts and Since (Unix seconds) count the failures of a handler with a retry limit.
	Attempts int   `json:"tries,omitempty"`
	Since    int64 `json:"since,omitempty"`
	// InProgress is the digest of an update for which the handler requested another call. At
	// (Unix seconds) is when the update was first seen.
	InProgress      string `json:"under,omitempty"`
	InProgressSince int64  `json:"at,omitempty"`
	// Done means that a Delete handler is done.
	Done bool `json:"done,omitempty"`
	// Progress is that of a call in progress, and ProgressInput the reason and the digest of its
	// input.
	Progress      progressText `json:"progress,omitempty"`
	ProgressInput string       `json:"of,omitempty"`
}

// handledState has the entries of the handlers by name.
type handledState map[string]entry

// uidEntry is the name of an entry with the digest of the object's UID. A copy of an object
// copies its annotations, but its handlers must treat it as new.
const uidEntry = "~"

// readHandledState reads the record from a path in the object. An invalid record, or that of
// another object, is empty; see restoreState.
func readHandledState(o *object.Object, namespace ...string) handledState {
	var text string
	field := o.Field(namespace...)
	if field == nil || json.Unmarshal(field, &text) != nil {
		return handledState{}
	}
	var recorded handledState
	if json.Unmarshal([]byte(text), &recorded) != nil || recorded[uidEntry].Digest != uidDigest(o.UID()) {
		return handledState{}
	}
	return recorded
}

func uidDigest(uid string) string { return digest(uid) }

// String returns the record as it is stored; empty for none.
func (r handledState) String() string {
	if len(r) == 0 {
		return ""
	}
	return string(toJSON(r))
}

// stateWith returns the record to store once the given responses are written: with pending
// entries, except those of handlers with other pending responses, and without the entries of
// removed handlers.
func (r *run) stateWith(applied []*pendingResponse) handledState {
	state := handledState{}
	for _, h := range r.memory.handlers {
		e := r.writtenEntry(h, applied)
		if r.memory.hasPending(h, applied) || h.pendingEntry == nil && r.isReleased() {
			e = r.storedState[h.Name]
		}
		if e != (entry{}) {
			state[h.Name] = e
		}
	}
	if len(state) > 0 {
		state[uidEntry] = entry{Digest: uidDigest(r.Stored.UID()), Applied: r.appliedText()}
	}
	return state
}

// HandledStatusField is the field of the status that has the records by controller name, if
// the schema of the kind has the field. A status request cannot change annotations, nor the
// other way round, so a record in the status saves one of two requests.
const HandledStatusField = "setpointHandledBy"

// handledStateOf reads the record of an object. It falls back to the annotation, which an
// earlier release may have written.
func (p *Program) handledStateOf(o *object.Object) handledState {
	state := readRecord(o, FormerRecord{p.HandledAnnotation, p.HandledStatusKey})
	for _, former := range p.FormerRecords {
		state.takeOver(readRecord(o, former))
	}
	return p.withCurrentNames(state)
}

// readRecord reads a record from the status, else from the annotation.
func readRecord(o *object.Object, from FormerRecord) handledState {
	if from.StatusKey != "" {
		if state := readHandledState(o, statusPath(from.StatusKey)...); len(state) > 0 {
			return state
		}
	}
	return readHandledState(o, annotationPath(from.Annotation)...)
}

// takeOver adds the entries of a former record. Revisions of its states have other names, so that
// they are not found again.
func (r handledState) takeOver(former handledState) {
	for name, e := range former {
		if _, own := r[name]; !own {
			e.HasRevision = false
			r[name] = e
		}
	}
}

// removedRecords returns patches of the annotations and of the records in the status that remove
// those of former controllers; nil for none.
func (p *Program) removedRecords(o *object.Object) (annotations, status map[string]any) {
	for _, former := range p.FormerRecords {
		// A copy of another object's record is left: what copied it would do so again.
		if len(readHandledState(o, annotationPath(former.Annotation)...)) > 0 {
			annotations = object.CombinePatches(annotations, map[string]any{former.Annotation: nil})
		}
		if former.StatusKey != "" && o.Field(statusPath(former.StatusKey)...) != nil {
			status = object.CombinePatches(status, map[string]any{former.StatusKey: nil})
		}
	}
	return annotations, status
}

// withCurrentNames renames the entries of renamed handlers. The next write of the record stores
// the new names.
func (p *Program) withCurrentNames(state handledState) handledState {
	for i := range p.Handlers {
		h := &p.Handlers[i]
		for _, former := range h.FormerNames {
			e, recorded := state[former]
			if _, renamed := state[h.Name]; recorded && !renamed {
				state[h.Name] = e
			}
			delete(state, former)
		}
	}
	return state
}

func (p *Program) statusPath() []string     { return statusPath(p.HandledStatusKey) }
func (p *Program) annotationPath() []string { return annotationPath(p.HandledAnnotation) }

func statusPath(key string) []string      { return []string{"status", HandledStatusField, key} }
func annotationPath(name string) []string { return []string{"metadata", "annotations", name} }

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
	differs = differs && !r.removesLastFinalizer(applied)
	if differs {
		_, records := r.program.removedRecords(r.Stored)
		records = object.CombinePatches(records, map[string]any{r.program.HandledStatusKey: text})
		status = object.CombinePatches(status, map[string]any{HandledStatusField: records})
	}
	var err error
	if d.status, err = r.storeStatus(ctx, status, checkVersion); err != nil {
		return err
	}
	if differs && text != nil && r.Stored.Field(r.program.statusPath()...) == nil {
		r.pruned.Store(true)
		r.Log.Warn("the schema prunes the field; handled state is stored in an annotation",
			"object", r.Stored.Ref().String(), "field", "status."+HandledStatusField)
		return r.storeObject(ctx, applied, d)
	}
	if err := r.storeCleanup(ctx, applied); err != nil {
		return err
	}
	return r.recognizeServerChanges(applied, d, patch)
}

// removesLastFinalizer reports whether removing our finalizer deletes the object, which needs
// no record then.
func (r *run) removesLastFinalizer(applied []*pendingResponse) bool {
	return r.Stored.Deleting() && len(r.Stored.Finalizers()) == 1 && r.removesFinalizer(applied)
}

// storeCleanup removes the finalizer, and records in annotations, once the record is stored
// in the status.
func (r *run) storeCleanup(ctx context.Context, applied []*pendingResponse) error {
	metadata := map[string]any{}
	if len(readHandledState(r.Stored, r.program.statusPath()...)) > 0 {
		annotations, _ := r.program.removedRecords(r.Stored)
		if r.Stored.Field(r.program.annotationPath()...) != nil {
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
	delete(want, HandledStatusField)
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
	if !slices.ContainsFunc(slices.Collect(maps.Values(r.storedState)), func(e entry) bool { return e.HasRevision }) {
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

// progressText is the progress of a call as JSON; empty for none. Unlike a json.RawMessage it can be
// compared.
type progressText string

// MarshalJSON returns the text.
func (p progressText) MarshalJSON() ([]byte, error) { return []byte(p), nil }

// UnmarshalJSON keeps the text.
func (p *progressText) UnmarshalJSON(data []byte) error {
	*p = progressText(data)
	return nil
}

// setProgress records what a response returned as progress; nil for none. It belongs to the state
// that the handler has seen in all of its calls.
func (m *handlerMemory) setProgress(e *entry, c call, seen basis, progress json.RawMessage) {
	e.clearProgress()
	if progress != nil {
		e.Progress, e.ProgressInput = progressText(progress), progressInput(c.reason, seen.digest)
		m.progressObject = seen.object
	}
}

// moveProgress changes the state to which the progress belongs, if there is any.
func (e *entry) moveProgress(digest string) {
	if e.Progress != "" {
		reason, _, _ := strings.Cut(e.ProgressInput, " ")
		e.ProgressInput = progressInput(hook.Reason(reason), digest)
	}
}

func (e *entry) clearProgress() { e.Progress, e.ProgressInput = "", "" }

// progressInput has the reason of the calls with a progress, and the digest of its state.
func progressInput(reason hook.Reason, digest string) string { return string(reason) + " " + digest }

// hasProgress reports whether calls with a reason have progress.
func (e *entry) hasProgress(reason hook.Reason) bool {
	return e.Progress != "" && strings.HasPrefix(e.ProgressInput, progressInput(reason, ""))
}

// progressDigest returns the digest of the state to which the progress belongs.
func (e *entry) progressDigest() string {
	_, digest, _ := strings.Cut(e.ProgressInput, " ")
	return digest
}

// latestDigest returns the digest of the state that an entry has seen last.
func (e *entry) latestDigest() string {
	if e.Progress != "" {
		return e.progressDigest()
	}
	return e.Digest
}

// progressOf returns the progress for a call; nil if there is none for its reason.
func (m *handlerMemory) progressOf(c call) json.RawMessage {
	if e := m.entry(); e.hasProgress(c.reason) {
		return json.RawMessage(e.Progress)
	}
	return nil
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
		case e != entry{}:
			h.storedEntry = e
		case h.storedEntry != entry{} && h.pendingEntry == nil && !r.isReleased():
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
