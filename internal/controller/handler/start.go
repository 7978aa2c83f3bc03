package handler

import (
	"encoding/json"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/controller"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// newRun is the first step: it loads the memory of the object. For a fresh one, the record on
// the object decides what to resume.
func (c *Controller) newRun(of *controller.Run, remembered controller.Remembered, fresh bool) *run {
	r := &run{Controller: c, Run: of, causes: of.Item.Causes, memory: remembered.(*memory)}
	for _, o := range r.memory.pending {
		o.fresh = false
	}
	if fresh {
		r.memory.firstSeen = r.tools.Now()
		recorded := r.program.handledStateOf(r.Stored)
		r.memory.handlers = r.program.newHandlers(recorded, r.Stored)
		r.restoreApplied(recorded)
	}
	r.noteRelatedChange()
	return r
}

// observe reads the object and what it owns, at the start of a run and after its writes.
func (r *run) observe() {
	r.storedState = r.program.handledStateOf(r.Stored)
	defer r.seeCached()
	r.restoreState()
	r.owned = r.ownedObjects()
	r.ownedNow = slices.Concat(r.owned...)
	r.ownedDigest = ""
	if r.program.handles(hook.ReasonDrift) {
		r.ownedDigest = r.digests.owned(r.appliedNow())
	}
	digests, now := r.watchedDigestsOf(r.Stored), r.tools.Now()
	for i, h := range r.memory.handlers {
		h.observe(digests[i], r.Stored, now)
		r.noteUnwritten(h)
		r.observeTimer(h, now)
	}
}

// seeCached adds the values of the Secrets that a write may quote before the first call: those of the objects, and of
// responses of earlier runs.
func (r *run) seeCached() {
	stored, owned := r.Stored, r.owned
	r.Secrets.See(false, func(visit func(json.RawMessage)) {
		visit(stored.JSON())
		for _, o := range slices.Concat(owned...) {
			visit(o.JSON())
		}
	})
	for _, o := range r.memory.pending {
		if !o.fresh {
			r.See(&record.Request{}, &record.Response{Handler: o.response})
		}
	}
}

// observeTimer updates the times from which a timer counts.
func (r *run) observeTimer(h *handlerMemory, now time.Time) {
	r.memory.firstSeen, h.lastTick = notAfter(r.memory.firstSeen, now), notAfter(h.lastTick, now)
	switch {
	case !h.FromFirstSeen:
	case !r.mayTick(h):
		h.matchedSince, h.lastTick = time.Time{}, time.Time{}
	case h.matchedSince.IsZero():
		h.matchedSince = now
	}
}

// observe updates since when the watched fields are unchanged, and replaces a previous object
// that equals the current one.
func (m *handlerMemory) observe(watched string, o *object.Object, now time.Time) {
	if m.watched != watched {
		m.watched, m.watchedSince = watched, now
	}
	e := m.entry()
	if e.Progress != "" && m.isStoredAs(e.progressDigest()) {
		m.progressObject = o
	}
	changesOnly := (m.When != nil || m.Expression != nil) && m.handles(hook.ReasonUpdate) && !m.handles(hook.ReasonCreate)
	switch seen := e.Digest; {
	case seen != "" && m.isStoredAs(seen):
		m.handled = o
	case seen == "" && m.firstDigest == "" && changesOnly:
		m.firstDigest, m.handled = watched, o
	}
}
