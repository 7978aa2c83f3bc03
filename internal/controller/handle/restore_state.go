package handle

import "time"

// removalsResetAfter is how long nobody may have removed a record until that is forgotten.
const removalsResetAfter = time.Minute

// restoreState puts back what somebody else took out of the record, or spoilt. This
// process knows what was dealt with, and calls nobody for it again: a tool that
// writes its own form of the object over and over would make that a loop.
func (r *run) restoreState() {
	lost := false
	for i := range r.memory.handlers {
		m, e := &r.memory.handlers[i], r.storedState[r.program.Handlers[i].Name]
		switch {
		case e != entry{}:
			m.storedEntry = e
		case m.storedEntry != entry{} && m.pendingEntry == nil:
			kept := m.storedEntry
			m.pendingEntry, m.digestBefore, lost = &kept, "", true
		}
	}
	if lost {
		r.noteStateRemoval()
	}
}

// noteStateRemoval has the record written again: at once, but the more often it was lost,
// the later.
func (r *run) noteStateRemoval() {
	now, losses := r.tools.Now(), &r.memory.stateRemovals
	if now.Sub(losses.since) > removalsResetAfter {
		losses.count = 0
	}
	losses.since = now
	if losses.count > 0 {
		losses.next = now.Add(backoff(losses.count, firstDelay, longestDelay))
	}
	losses.count++
	r.Log.Info("another client removed the handled state; writing it again", "object", r.stored.Ref().String())
}
