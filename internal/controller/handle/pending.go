package handle

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/cache"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// observation is the input that decides which calls are pending for an object.
type observation struct {
	program      *Program
	object       *object.Object
	hasFinalizer bool
	// state is the record, with pending entries.
	state handledState
	// watchedDigests has a digest of the watched fields for each handler.
	watchedDigests []string
	// ownedDigest is the digest of the owned objects.
	ownedDigest string
	memory      *memory
	// requested means that a user requested the reconcile, retryCalls that failed calls are
	// retried at once.
	requested, retryCalls bool
	// throttled means that no handler is called for changes now; see throttle.
	throttled bool
	now       time.Time
}

// call is one call of a handler for one reason.
type call struct {
	handler  int
	reason   hook.Reason
	previous *object.Object
	object   *object.Object
	// digest identifies the input: the digest of the watched fields, or of the owned objects.
	digest  string
	attempt int
	deleted bool
	// event is the change of a hook.ReasonEvent call, moment the scheduled time of a timer
	// call.
	event       cache.Event
	scheduledAt time.Time
	// repeated means that the handler was called for the same input before.
	repeated bool
}

// changed returns the object of the event, or the current one.
func (c *call) changed() *object.Object { return cmp.Or(c.event.New, c.object) }

type calls []call

// includes reports whether a handler has a call.
func (all calls) includes(handler int) bool {
	return slices.ContainsFunc(all, func(c call) bool { return c.handler == handler })
}

// pendingCalls has the calls to make now, and when to compute them again.
type pendingCalls struct {
	calls calls
	// waiting are the handlers in backoff.
	waiting []int
	// firstSeen are the handlers that get an entry without a call: the first state that they
	// see is no update.
	firstSeen []int
	next      time.Time
}

func (h *Handler) handles(reason hook.Reason) bool { return slices.Contains(h.On, reason) }

// matches reports whether a handler's condition matches.
func (h *Handler) matches(old, now *object.Object) bool { return h.When == nil || h.When(old, now) }

// hasState reports whether the handler gets an entry at first sight.
func (h *Handler) hasState() bool {
	return slices.ContainsFunc(h.On, func(reason hook.Reason) bool {
		switch reason {
		case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume, hook.ReasonDrift:
			return true
		}
		return false
	})
}

// pendingCalls returns the pending calls for an object.
func (s *observation) pendingCalls() pendingCalls {
	var a pendingCalls
	for i := range s.program.Handlers {
		s.addHandler(&a, i)
	}
	return a
}

// addHandler adds the pending calls of one handler.
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

// addCall adds a call, unless the handler is in backoff.
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

// skipsBackoff reports whether a retry is made before its delay has ended.
func (s *observation) skipsBackoff(former *attempt) bool {
	changed := former.requeued && former.objectDigest != "" && former.objectDigest != digest(watchableFields(s.object))
	return changed || s.retryCalls
}

// matches reports whether an attempt was for the same call. An attempt that only the record
// has always matches.
func (a *attempt) matches(c call) bool {
	return a.reason == c.reason && a.digest == c.digest || a.reason == "" && a.count > 0
}

// changeReasons are the reasons that depend on an entry. If several apply, the handler is
// called for the first.
var changeReasons = [...]hook.Reason{hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonResume, hook.ReasonDrift}

// changeCall returns the call that follows from a handler's entry and the current object.
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

// applies reports whether a reason applies to an object, before the handler's condition. A
// handler that gave up is called again when its input changes.
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
		// A handler with an update in progress must also see a revert.
		return anew || changed && !e.Failed || e.InProgress != ""
	case hook.ReasonResume:
		return e.Digest != "" && !m.resumed
	default:
		return e.Digest != "" && s.drifted(e, m)
	}
}

// isHandled reports whether the watched fields have been handled, also as the server stored
// them, or as they are until the response is written.
func (m *handlerMemory) isHandled(seen, now string) bool {
	switch {
	case seen == now:
		return true
	case m.pendingEntry != nil && m.pendingEntry.Digest == seen && m.digestBefore == now:
		return true
	}
	return m.serverDigest.recorded == seen && m.serverDigest.actual == now
}

// drifted reports whether the owned objects differ from what was applied, or the handler
// requested another call for drift.
func (s *observation) drifted(e entry, m *handlerMemory) bool {
	return e.OwnedDigest != "" && e.OwnedDigest != s.ownedDigest || m.attempt.requeued && m.attempt.reason == hook.ReasonDrift
}

// deletionCall returns the call of a Delete handler.
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

// deletionDigest returns the digest of an object in deletion.
func deletionDigest(watched string) string { return "-" + watched }

// isFirstSeen reports whether a handler gets its entry without a call. A Drift handler needs a
// digest to compare with.
func (s *observation) isFirstSeen(i int) bool {
	h := &s.program.Handlers[i]
	if s.object.Deleting() || !h.hasState() {
		return false
	}
	e := s.state[h.Name]
	without := e.Digest == "" && !h.handles(hook.ReasonCreate) || e.Digest != "" && h.handles(hook.ReasonDrift) && e.OwnedDigest == ""
	return without && h.matches(nil, s.object)
}

// addTimer adds a timer call that is due.
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

// nextTick returns the next time of a timer; zero if the timer cannot fire.
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
