package handler

import "time"

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
