package react

import (
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// open is the first step: it finds the object and what is remembered of it. It
// returns false when there is no such object any more, or none of ours.
func (c *Controller) open(item queue.Item, news []store.Event) (*run, bool) {
	o := c.get(item.Key)
	if o == nil || c.program.stanceOn(o) == indifferent {
		c.memories.drop(item.Key)
		return nil, false
	}
	r := &run{Controller: c, item: item, stored: o, stance: c.program.stanceOn(o)}
	r.remember()
	r.survey()
	r.takeNews(news)
	return r, true
}

// remember finds the memory of the object, or begins one: what there is to resume
// is decided by the record that the object comes with.
func (r *run) remember() {
	memory, fresh := r.memories.of(r.item.Key, r.stored.UID())
	r.memory = memory
	for _, o := range memory.owed {
		o.fresh = false
	}
	if !fresh {
		return
	}
	memory.since = r.tools.Now()
	memory.handlers = make([]recall, len(r.program.Handlers))
	recorded := r.program.recordOf(r.stored)
	for i := range memory.handlers {
		h, one := &r.program.Handlers[i], &memory.handlers[i]
		e := recorded[h.Name]
		one.resumed = e.Seen == ""
		if e.Tries > 0 {
			one.attempt.count, one.attempt.since = e.Tries, time.Unix(e.Since, 0)
		}
		if e.Under != "" {
			one.idle.watched, one.idle.since = e.Under, time.Unix(e.At, 0)
		}
	}
}

// survey looks at what there is: at the start of a run, and after its writes.
func (r *run) survey() {
	r.recorded = r.program.recordOf(r.stored)
	r.restore()
	r.watched = r.watchedIn(r.stored)
	r.owned = r.ownedBy(r.stored)
	r.ownedNow = flat(r.owned)
	r.ownedDigest = ""
	if r.program.told(hook.ReasonDrift) {
		r.ownedDigest = r.digested.owned(flat(r.owned))
	}
	known, now := r.known(), r.tools.Now()
	for i := range r.memory.handlers {
		h, m := &r.program.Handlers[i], &r.memory.handlers[i]
		e := known[h.Name]
		m.look(e, r.watched[i], r.stored, now)
		if e.Seen == "" && m.first == "" && h.When != nil && h.on(hook.ReasonUpdate) && !h.on(hook.ReasonCreate) {
			m.first, m.handled = r.watched[i], r.stored
		}
	}
}

// known is what is recorded, with all that is pending.
func (r *run) known() record {
	return r.recorded.with(&r.program, r.memory, func(int) bool { return true })
}

// look notes since when what is watched has been the same, and lets go of an old object
// where the present one says the same.
func (m *recall) look(e entry, watched string, o *object.Object, now time.Time) {
	if m.idle.watched != watched {
		m.idle.watched, m.idle.since = watched, now
	}
	if e.Seen != "" && m.knows(e.Seen, watched) {
		m.handled = o
	}
}

// still says whether the object is still there, and still the same one.
func (r *run) still() bool {
	now := r.get(r.item.Key)
	return now != nil && now.UID() == r.stored.UID()
}

// flat are the objects of all kinds in one list.
func flat(groups [][]*object.Object) []*object.Object {
	var all []*object.Object
	for _, group := range groups {
		all = append(all, group...)
	}
	return all
}
