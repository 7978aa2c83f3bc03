package react

import "time"

// calmAgain is how long nobody may have removed a record until that is forgotten.
const calmAgain = time.Minute

// restore puts back what somebody else took out of the record, or spoilt. This
// process knows what was dealt with, and calls nobody for it again: a tool that
// writes its own form of the object over and over would make that a loop.
func (r *run) restore() {
	lost := false
	for i := range r.memory.handlers {
		m, e := &r.memory.handlers[i], r.recorded[r.program.Handlers[i].Name]
		switch {
		case e != entry{}:
			m.recorded = e
		case m.recorded != entry{} && m.pending == nil:
			kept := m.recorded
			m.pending, m.before, lost = &kept, "", true
		}
	}
	if lost {
		r.noteLoss()
	}
}

// noteLoss has the record written again: at once, but the more often it was lost,
// the later.
func (r *run) noteLoss() {
	now, losses := r.tools.Now(), &r.memory.losses
	if now.Sub(losses.since) > calmAgain {
		losses.count = 0
	}
	losses.since = now
	if losses.count > 0 {
		losses.next = now.Add(backoff(losses.count, firstDelay, longestDelay))
	}
	losses.count++
	r.log.Info("somebody removed the record of what was handled; it is written again", "object", r.stored.Ref().String())
}
