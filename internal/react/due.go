package react

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/store"
)

// situation is all that decides which handlers an object is due for.
type situation struct {
	program *Program
	object  *object.Object
	// held says that our finalizer is on the object.
	held bool
	// record is what is recorded, with what is pending.
	record record
	// watched are the digests of what each handler watches.
	watched []string
	// owned is the digest of the owned objects.
	owned  string
	memory *memory
	// asked says that a user asks for it, urged that failed calls are retried at once.
	asked, urged bool
	// slowed says that handlers are not called for changes now: see throttle.
	slowed bool
	now    time.Time
}

// call is one handler to be told of one thing.
type call struct {
	handler int
	reason  hook.Reason
	old     *object.Object
	object  *object.Object
	// input is what it is about: the digest of what the handler watches, or of
	// the owned objects.
	input   string
	attempt int
	gone    bool
	// event is the change that it is about, for hook.ReasonEvent, and moment when a call
	// by the clock was to be made.
	event  store.Event
	moment time.Time
	// repeated says that the handler was called for the same before, and that nothing
	// changed since.
	repeated bool
}

// changed is the object as the change has it that the call is about.
func (c *call) changed() *object.Object { return cmp.Or(c.event.New, c.object) }

// calls are in the order of the program.
type calls []call

// of says whether there is one of a handler.
func (all calls) of(handler int) bool {
	return slices.ContainsFunc(all, func(c call) bool { return c.handler == handler })
}

// agenda is what is to be done about an object, and when to look again.
type agenda struct {
	calls calls
	// waiting are the handlers that failed and have to wait.
	waiting []int
	// first are the handlers that get an entry unasked: what they see at first
	// sight is no update.
	first []int
	next  time.Time
}

// on says whether a handler is told for a reason.
func (h *Handler) on(reason hook.Reason) bool { return slices.Contains(h.On, reason) }

// cares says whether a handler cares.
func (h *Handler) cares(old, now *object.Object) bool { return h.When == nil || h.When(old, now) }

// recorded says that the handler has an entry from the first sight on.
func (h *Handler) recorded() bool {
	return slices.ContainsFunc(h.On, func(reason hook.Reason) bool {
		switch reason {
		case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume, hook.ReasonDrift:
			return true
		}
		return false
	})
}

// due finds out which handlers an object is due for, and why.
func (s *situation) due() agenda {
	var a agenda
	for i := range s.program.Handlers {
		s.consider(&a, i)
	}
	return a
}

// consider puts on the agenda what an object is due for of one handler.
func (s *situation) consider(a *agenda, i int) {
	if s.program.Handlers[i].Do == nil {
		return
	}
	if c, is := s.change(i); is {
		s.schedule(a, c)
		return
	}
	if s.isFirst(i) {
		a.first = append(a.first, i)
	}
	s.clock(a, i)
}

// schedule puts a call on the agenda, unless it failed and has to wait.
func (s *situation) schedule(a *agenda, c call) {
	m := &s.memory.handlers[c.handler]
	if settled := m.idle.since.Add(s.program.Handlers[c.handler].Settle); c.reason == hook.ReasonUpdate && settled.After(s.now) {
		a.next = earliest(a.next, settled)
		return
	}
	if former := &m.attempt; former.is(c) {
		c.attempt = former.count
		hastened := s.hastens(former)
		c.repeated = !hastened
		if former.next.After(s.now) && !hastened {
			a.next = earliest(a.next, former.next)
			a.waiting = append(a.waiting, c.handler)
			return
		}
	}
	if s.slowed && c.isChange() && !s.urged {
		a.next = earliest(a.next, s.memory.throttle.until)
		a.waiting = append(a.waiting, c.handler)
		return
	}
	a.calls = append(a.calls, c)
}

// hastens says that something happened which an attempt was not to wait beyond.
func (s *situation) hastens(former *attempt) bool {
	changed := former.again && former.whole != "" && former.whole != digest(essence(s.object))
	return changed || s.urged
}

// is says whether an attempt was the same call; one that is known from the record
// alone was.
func (a *attempt) is(c call) bool {
	return a.reason == c.reason && a.input == c.input || a.reason == "" && a.count > 0
}

// changing are the reasons that an entry decides about. Of several that apply a
// handler is told the first.
var changing = [...]hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume, hook.ReasonDrift}

// change is the call that a handler's entry, compared with what is there, asks
// for.
func (s *situation) change(i int) (call, bool) {
	if s.object.Deleting() {
		return s.deletion(i)
	}
	h, m := &s.program.Handlers[i], &s.memory.handlers[i]
	for _, reason := range changing {
		c := call{handler: i, reason: reason, object: s.object, input: s.watched[i], old: m.handled}
		switch reason {
		case hook.ReasonCreate:
			c.old = nil
		case hook.ReasonDrift:
			c.input = s.owned
		}
		if h.on(reason) && s.applies(reason, i) && h.cares(c.old, s.object) {
			return c, true
		}
	}
	return call{}, false
}

// applies says whether an object is due for a handler for a reason, if the
// handler cares. One that gave up is told again when its input is another one.
func (s *situation) applies(reason hook.Reason, i int) bool {
	h, m := &s.program.Handlers[i], &s.memory.handlers[i]
	e := s.record[h.Name]
	changed := !m.knows(e.Seen, s.watched[i])
	anew := e.Failed && (changed || s.urged)
	switch reason {
	case hook.ReasonCreate:
		return e.Seen == "" || anew && !h.on(hook.ReasonUpdate)
	case hook.ReasonUpdate:
		if e.Seen == "" {
			return m.first != "" && m.first != s.watched[i] && !h.cares(nil, s.object)
		}
		// Back to what it was is news as well to one that is at work on another state.
		return anew || changed && !e.Failed || e.Under != ""
	case hook.ReasonResume:
		return e.Seen != "" && !m.resumed
	default:
		return e.Seen != "" && s.drifted(e, m)
	}
}

// knows says whether what is watched now is what was seen, also as the server
// stored it, or as it is until the answer is written.
func (m *recall) knows(seen, now string) bool {
	switch {
	case seen == now:
		return true
	case m.pending != nil && m.pending.Seen == seen && m.before == now:
		return true
	}
	return m.stored.recorded == seen && m.stored.actual == now
}

// drifted says whether the owned objects are not as they were left, or the
// handler asked to be told of that once more.
func (s *situation) drifted(e entry, m *recall) bool {
	return e.Owned != "" && e.Owned != s.owned || m.attempt.again && m.attempt.reason == hook.ReasonDrift
}

// deletion is the call of a Delete handler.
func (s *situation) deletion(i int) (call, bool) {
	h := &s.program.Handlers[i]
	e, input := s.record[h.Name], deleting(s.watched[i])
	settled := e.Done || e.Failed && e.Seen == input && !s.urged
	if settled || !h.on(hook.ReasonDelete) || !s.held && !h.Optional || !h.cares(nil, s.object) {
		return call{}, false
	}
	old := s.memory.handlers[i].handled
	return call{handler: i, reason: hook.ReasonDelete, object: s.object, input: input, old: old}, true
}

// deleting is the digest of what is watched while the object is being deleted.
func deleting(watched string) string { return "-" + watched }

// isFirst says whether a handler gets its entry unasked. What drift is, is not
// known before there is a digest to compare with.
func (s *situation) isFirst(i int) bool {
	h := &s.program.Handlers[i]
	if s.object.Deleting() || !h.recorded() {
		return false
	}
	e := s.record[h.Name]
	without := e.Seen == "" && !h.on(hook.ReasonCreate) || e.Seen != "" && h.on(hook.ReasonDrift) && e.Owned == ""
	return without && h.cares(nil, s.object)
}

// clock puts a timer on the agenda when it is time.
func (s *situation) clock(a *agenda, i int) {
	h, m := &s.program.Handlers[i], &s.memory.handlers[i]
	if !h.ticks() || s.object.Deleting() || !h.cares(nil, s.object) {
		return
	}
	c := call{handler: i, reason: hook.ReasonTimer, object: s.object, old: m.handled}
	if m.attempt.reason == hook.ReasonTimer {
		c.moment = earliest(m.attempt.next, s.now)
		s.schedule(a, c)
		return
	}
	at := s.nextTick(i)
	if at.IsZero() {
		return
	}
	if at.After(s.now) && !s.asked {
		a.next = earliest(a.next, at)
		return
	}
	c.moment = earliest(at, s.now)
	a.calls = append(a.calls, c)
}

// nextTick is the next moment of a timer that nothing is known to be in the way of;
// zero if there is none.
func (s *situation) nextTick(i int) time.Time {
	h, m := &s.program.Handlers[i], &s.memory.handlers[i]
	at := h.moment(s.object, latest(m.ticked, s.memory.since))
	if h.Every > 0 && !m.ticked.IsZero() {
		at = m.ticked.Add(h.Every)
	}
	if at.IsZero() || h.Idle == 0 {
		return at
	}
	return latest(at, m.idle.since.Add(h.Idle))
}
