package handle

import (
	"slices"
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
	r := &run{Controller: c, item: item, causes: item.Causes, stored: o, phase: c.program.phaseOf(o)}
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
	if fresh {
		memory.firstSeen = r.tools.Now()
		memory.handlers = r.program.newHandlers(r.program.handledStateOf(r.stored))
	}
}

// observe reads the object and what it owns, at the start of a run and after its writes.
func (r *run) observe() {
	r.storedState = r.program.handledStateOf(r.stored)
	r.restoreState()
	r.owned = r.ownedBy(r.stored)
	r.ownedNow = slices.Concat(r.owned...)
	r.ownedDigest = ""
	if r.program.handles(hook.ReasonDrift) {
		r.ownedDigest = r.digests.owned(r.ownedNow)
	}
	digests, now := r.watchedDigestsOf(r.stored), r.tools.Now()
	for i, h := range r.memory.handlers {
		h.observe(digests[i], r.stored, now)
	}
}

// observe updates since when the watched fields are unchanged, and replaces a previous object
// that equals the current one.
func (m *handlerMemory) observe(watched string, o *object.Object, now time.Time) {
	if m.watched != watched {
		m.watched, m.watchedSince = watched, now
	}
	seen := m.entry().Digest
	changesOnly := m.When != nil && m.handles(hook.ReasonUpdate) && !m.handles(hook.ReasonCreate)
	switch {
	case seen != "" && m.isHandled():
		m.handled = o
	case seen == "" && m.firstDigest == "" && changesOnly:
		m.firstDigest, m.handled = watched, o
	}
}

// stillExists reports whether the same object still exists.
func (r *run) stillExists() bool { return r.StillExists(r.stored) }
