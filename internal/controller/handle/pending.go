package handle

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// observation is all that decides which handlers an object is due for.
type observation struct {
	program *Program
	object  *object.Object
	// hasFinalizer says that our finalizer is on the object.
	hasFinalizer bool
	// state is what is recorded, with what is pending.
	state handledState
	// watchedDigests are the digests of what each handler watches.
	watchedDigests []string
	// ownedDigest is the digest of the owned objects.
	ownedDigest string
	memory      *memory
	// requested says that a user asks for it, urged that failed calls are retried at once.
	requested, retryCalls bool
	// throttled says that handlers are not called for changes now: see throttle.
	throttled bool
	now       time.Time
}

// call is one handler to be told of one thing.
type call struct {
	handler  int
	reason   hook.Reason
	previous *object.Object
	object   *object.Object
	// digest is what it is about: the digest of what the handler watches, or of
	// the owned objects.
	digest  string
	attempt int
	deleted bool
	// event is the change that it is about, for hook.ReasonEvent, and moment when a call
	// by the clock was to be made.
	event       cache.Event
	scheduledAt time.Time
	// repeated says that the handler was called for the same before, and that nothing
	// changed since.
	repeated bool
}

// changed is the object as the change has it that the call is about.
func (c *call) changed() *object.Object { return cmp.Or(c.event.New, c.object) }

// calls are in the order of the program.
type calls []call

// includes says whether there is one of a handler.
func (all calls) includes(handler int) bool {
	return slices.ContainsFunc(all, func(c call) bool { return c.handler == handler })
}

// pendingCalls is what is to be done about an object, and when to look again.
type pendingCalls struct {
	calls calls
	// waiting are the handlers that failed and have to wait.
	waiting []int
	// firstSeen are the handlers that get an entry unasked: what they see at first
	// sight is no update.
	firstSeen []int
	next      time.Time
}

// handles says whether a handler is told for a reason.
func (h *Handler) handles(reason hook.Reason) bool { return slices.Contains(h.On, reason) }

// matches says whether a handler cares.
func (h *Handler) matches(old, now *object.Object) bool { return h.When == nil || h.When(old, now) }

// hasState says that the handler has an entry from the first sight on.
func (h *Handler) hasState() bool {
	return slices.ContainsFunc(h.On, func(reason hook.Reason) bool {
		switch reason {
		case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume, hook.ReasonDrift:
			return true
		}
		return false
	})
}

// pendingCalls finds out which handlers an object is due for, and why.
func (s *observation) pendingCalls() pendingCalls {
	var a pendingCalls
	for i := range s.program.Handlers {
		s.addHandler(&a, i)
	}
	return a
}

// addHandler puts on the agenda what an object is due for of one handler.
func (s *observation) addHandler(a *pendingCalls, i int) {
	if s.program.Handlers[i].Do == nil {
		return
	}
	if c, is := s.changeCall(i); is {
		s.addCall(a, c)
		return
	}
	if s.isFirstSeen(i) {
		a.firstSeen = append(a.firstSeen, i)
	}
	s.addTimer(a, i)
}

// addCall puts a call on the agenda, unless it failed and has to wait.
func (s *observation) addCall(a *pendingCalls, c call) {
	m := &s.memory.handlers[c.handler]
	if settled := m.idle.since.Add(s.program.Handlers[c.handler].Debounce); c.reason == hook.ReasonUpdate && settled.After(s.now) {
		a.next = earliest(a.next, settled)
		return
	}
	if former := &m.attempt; former.matches(c) {
		c.attempt = former.count
		skipsBackoff := s.skipsBackoff(former)
		c.repeated = !skipsBackoff
		if former.next.After(s.now) && !skipsBackoff {
			a.next = earliest(a.next, former.next)
			a.waiting = append(a.waiting, c.handler)
			return
		}
	}
	if s.throttled && c.isChange() && !s.retryCalls {
		a.next = earliest(a.next, s.memory.throttle.until)
		a.waiting = append(a.waiting, c.handler)
		return
	}
	a.calls = append(a.calls, c)
}

// skipsBackoff says that something happened which an attempt was not to wait beyond.
func (s *observation) skipsBackoff(former *attempt) bool {
	changed := former.requeued && former.objectDigest != "" && former.objectDigest != digest(watchableFields(s.object))
	return changed || s.retryCalls
}

// matches says whether an attempt was the same call; one that is known from the record
// alone was.
func (a *attempt) matches(c call) bool {
	return a.reason == c.reason && a.digest == c.digest || a.reason == "" && a.count > 0
}

// changeReasons are the reasons that an entry decides about. Of several that apply a
// handler is told the first.
var changeReasons = [...]hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume, hook.ReasonDrift}

// changeCall is the call that a handler's entry, compared with what is there, asks
// for.
func (s *observation) changeCall(i int) (call, bool) {
	if s.object.Deleting() {
		return s.deletionCall(i)
	}
	h, m := &s.program.Handlers[i], &s.memory.handlers[i]
	for _, reason := range changeReasons {
		c := call{handler: i, reason: reason, object: s.object, digest: s.watchedDigests[i], previous: m.handled}
		switch reason {
		case hook.ReasonCreate:
			c.previous = nil
		case hook.ReasonDrift:
			c.digest = s.ownedDigest
		}
		if h.handles(reason) && s.applies(reason, i) && h.matches(c.previous, s.object) {
			return c, true
		}
	}
	return call{}, false
}

// applies says whether an object is due for a handler for a reason, if the
// handler cares. One that gave up is told again when its input is another one.
func (s *observation) applies(reason hook.Reason, i int) bool {
	h, m := &s.program.Handlers[i], &s.memory.handlers[i]
	e := s.state[h.Name]
	changed := !m.isHandled(e.Digest, s.watchedDigests[i])
	anew := e.Failed && (changed || s.retryCalls)
	switch reason {
	case hook.ReasonCreate:
		return e.Digest == "" || anew && !h.handles(hook.ReasonUpdate)
	case hook.ReasonUpdate:
		if e.Digest == "" {
			return m.firstDigest != "" && m.firstDigest != s.watchedDigests[i] && !h.matches(nil, s.object)
		}
		// Back to what it was is news as well to one that is at work on another state.
		return anew || changed && !e.Failed || e.InProgress != ""
	case hook.ReasonResume:
		return e.Digest != "" && !m.resumed
	default:
		return e.Digest != "" && s.drifted(e, m)
	}
}

// isHandled says whether what is watched now is what was seen, also as the server
// stored it, or as it is until the answer is written.
func (m *handlerMemory) isHandled(seen, now string) bool {
	switch {
	case seen == now:
		return true
	case m.pendingEntry != nil && m.pendingEntry.Digest == seen && m.digestBefore == now:
		return true
	}
	return m.serverDigest.recorded == seen && m.serverDigest.actual == now
}

// drifted says whether the owned objects are not as they were left, or the
// handler asked to be told of that once more.
func (s *observation) drifted(e entry, m *handlerMemory) bool {
	return e.OwnedDigest != "" && e.OwnedDigest != s.ownedDigest || m.attempt.requeued && m.attempt.reason == hook.ReasonDrift
}

// deletionCall is the call of a Delete handler.
func (s *observation) deletionCall(i int) (call, bool) {
	h := &s.program.Handlers[i]
	e, input := s.state[h.Name], deletionDigest(s.watchedDigests[i])
	settled := e.Done || e.Failed && e.Digest == input && !s.retryCalls
	if settled || !h.handles(hook.ReasonDelete) || !s.hasFinalizer && !h.Optional || !h.matches(nil, s.object) {
		return call{}, false
	}
	old := s.memory.handlers[i].handled
	return call{handler: i, reason: hook.ReasonDelete, object: s.object, digest: input, previous: old}, true
}

// deletionDigest is the digest of what is watched while the object is being deleted.
func deletionDigest(watched string) string { return "-" + watched }

// isFirstSeen says whether a handler gets its entry unasked. What drift is, is not
// known before there is a digest to compare with.
func (s *observation) isFirstSeen(i int) bool {
	h := &s.program.Handlers[i]
	if s.object.Deleting() || !h.hasState() {
		return false
	}
	e := s.state[h.Name]
	without := e.Digest == "" && !h.handles(hook.ReasonCreate) || e.Digest != "" && h.handles(hook.ReasonDrift) && e.OwnedDigest == ""
	return without && h.matches(nil, s.object)
}

// addTimer puts a timer on the agenda when it is time.
func (s *observation) addTimer(a *pendingCalls, i int) {
	h, m := &s.program.Handlers[i], &s.memory.handlers[i]
	if !h.hasTimer() || s.object.Deleting() || !h.matches(nil, s.object) {
		return
	}
	c := call{handler: i, reason: hook.ReasonTimer, object: s.object, previous: m.handled}
	if m.attempt.reason == hook.ReasonTimer {
		c.scheduledAt = earliest(m.attempt.next, s.now)
		s.addCall(a, c)
		return
	}
	at := s.nextTick(i)
	if at.IsZero() {
		return
	}
	if at.After(s.now) && !s.requested {
		a.next = earliest(a.next, at)
		return
	}
	c.scheduledAt = earliest(at, s.now)
	a.calls = append(a.calls, c)
}

// nextTick is the next moment of a timer that nothing is known to be in the way of;
// zero if there is none.
func (s *observation) nextTick(i int) time.Time {
	h, m := &s.program.Handlers[i], &s.memory.handlers[i]
	at := h.nextTime(s.object, latest(m.lastTick, s.memory.firstSeen))
	if h.Every > 0 && !m.lastTick.IsZero() {
		at = m.lastTick.Add(h.Every)
	}
	if at.IsZero() || h.Idle == 0 {
		return at
	}
	return latest(at, m.idle.since.Add(h.Idle))
}
