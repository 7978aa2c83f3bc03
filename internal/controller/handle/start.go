package handle

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// startRun is the first step: it looks up the object and its memory. It returns false if the
// object does not exist or is not managed.
func (c *Controller) startRun(item queue.Item, events []cache.Event) (*run, bool) {
	o := c.Get(item.Key)
	if o == nil || c.program.phaseOf(o) == phaseIgnored {
		c.memories.Drop(item.Key)
		return nil, false
	}
	r := &run{Controller: c, item: item, stored: o, phase: c.program.phaseOf(o)}
	r.loadMemory()
	r.observe()
	r.takeEvents(events)
	return r, true
}

// loadMemory gets the memory of the object. For a fresh one, the record on the object decides
// what to resume.
func (r *run) loadMemory() {
	memory, fresh := r.memories.Get(r.item.Key, r.stored.UID())
	r.memory = memory
	for _, o := range memory.pending {
		o.fresh = false
	}
	if !fresh {
		return
	}
	memory.firstSeen = r.tools.Now()
	memory.handlers = make([]handlerMemory, len(r.program.Handlers))
	recorded := r.program.handledStateOf(r.stored)
	for i := range memory.handlers {
		h, one := &r.program.Handlers[i], &memory.handlers[i]
		e := recorded[h.Name]
		one.resumed = e.Digest == ""
		if e.Attempts > 0 {
			one.attempt.count, one.attempt.since = e.Attempts, time.Unix(e.Since, 0)
		}
		if e.InProgress != "" {
			one.idle.watched, one.idle.since = e.InProgress, time.Unix(e.InProgressSince, 0)
		}
	}
}

// observe reads the object and what it owns, at the start of a run and after its writes.
func (r *run) observe() {
	r.storedState = r.program.handledStateOf(r.stored)
	r.restoreState()
	r.watchedDigests = r.watchedDigestsOf(r.stored)
	r.owned = r.ownedBy(r.stored)
	r.ownedNow = flatten(r.owned)
	r.ownedDigest = ""
	if r.program.handles(hook.ReasonDrift) {
		r.ownedDigest = r.digests.owned(flatten(r.owned))
	}
	known, now := r.currentState(), r.tools.Now()
	for i := range r.memory.handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		e := known[h.Name]
		m.observe(e, r.watchedDigests[i], r.stored, now)
		if e.Digest == "" && m.firstDigest == "" && h.When != nil && h.handles(hook.ReasonUpdate) && !h.handles(hook.ReasonCreate) {
			m.firstDigest, m.handled = r.watchedDigests[i], r.stored
		}
	}
}

// currentState returns the record, with all pending entries.
func (r *run) currentState() handledState {
	return r.storedState.withPending(&r.program, r.memory, func(int) bool { return true })
}

// observe updates since when the watched fields are unchanged, and drops a previous object
// that equals the current one.
func (m *handlerMemory) observe(e entry, watched string, o *object.Object, now time.Time) {
	if m.idle.watched != watched {
		m.idle.watched, m.idle.since = watched, now
	}
	if e.Digest != "" && m.isHandled(e.Digest, watched) {
		m.handled = o
	}
}

// stillExists reports whether the same object still exists.
func (r *run) stillExists() bool {
	now := r.Get(r.item.Key)
	return now != nil && now.UID() == r.stored.UID()
}

// flatten returns the objects of all kinds in one list.
func flatten(groups [][]*object.Object) []*object.Object {
	var all []*object.Object
	for _, group := range groups {
		all = append(all, group...)
	}
	return all
}
