package trigger

import (
	"cmp"
	"hash/fnv"
	"math"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/queue"
)

// observeTimer updates the times from which a timer counts.
func (p *Pass) observeTimer(h *State, now time.Time) {
	p.firstSeen, h.lastTick = notAfter(p.firstSeen, now), notAfter(h.lastTick, now)
	switch {
	case !h.FromFirstSeen:
	case !p.MayTick(h):
		h.matchedSince, h.lastTick = time.Time{}, time.Time{}
	case h.matchedSince.IsZero():
		h.matchedSince = now
	}
}

// addTimer adds a timer call that is due. It waits for the write of a response for another reason: what a timer
// responds need not have that.
func (p *Pass) addTimer(a *due, h *State) {
	if !p.MayTick(h) || p.hasUnwritten(h) {
		return
	}
	now := p.Now()
	c := Call{Handler: h, Reason: hook.ReasonTimer, Object: p.Object, watched: h.watched, Previous: h.Handled}
	if h.Attempt.reason == hook.ReasonTimer {
		c.scheduledAt = Earliest(h.Attempt.Next, now)
		p.addCall(a, c)
		return
	}
	at := p.NextTick(h)
	switch {
	case at.IsZero():
	case at.After(now) && !p.Causes.Has(queue.ReconcileRequested):
		a.next = Earliest(a.next, at)
	default:
		c.scheduledAt = Earliest(at, now)
		a.Calls = append(a.Calls, c)
	}
}

// MayTick reports whether the handler has a timer that runs for the object.
func (v *Observation) MayTick(h *State) bool {
	return (h.Every > 0 || h.Schedule != nil) && !v.Object.Deleting() && h.matches(nil, v.Object) &&
		v.holds(h, hook.ReasonTimer, nil, v.Object) && !v.declines(h, hook.ReasonTimer)
}

// nextTime returns the first time of a timer after a time; zero if none. The times of an
// interval start at the object's creation, until a call is late: see intervalStart.
func (h *Handler) nextTime(o *object.Object, after time.Time) time.Time {
	shift := h.jitterOffset(o.UID())
	if h.Schedule != nil {
		next := h.Schedule.Next(after.Add(-shift))
		if next.IsZero() {
			return next
		}
		return next.Add(shift)
	}
	begin := Earliest(createdAt(o), after).Add(shift) // The clock of the API server may be ahead.
	if after.Before(begin) {
		return begin.Add(h.Every)
	}
	passed := after.Sub(begin)
	return begin.Add(passed - passed%h.Every + h.Every)
}

// intervalStart returns the time from which the next call is counted: that of the ended call,
// or now if the interval has passed since, if the handler counts from the end of a call, or if a
// calendar decides.
func (h *Handler) intervalStart(c Call, now time.Time) time.Time {
	if h.Every > 0 && now.Before(c.scheduledAt.Add(h.Every)) && (h.Sharp || !h.FromFirstSeen) {
		return c.scheduledAt
	}
	return now
}

// ticked notes that a scheduled call has ended.
func (m *State) ticked(c Call, now time.Time) {
	m.lastTick, m.lastScheduled = m.intervalStart(c, now), c.scheduledAt
}

// NextTick returns the next time of a timer; zero if the timer cannot fire.
func (p *Pass) NextTick(h *State) time.Time {
	var at time.Time
	switch {
	case h.Every > 0 && !h.lastTick.IsZero():
		at = h.lastTick.Add(h.Every)
	case h.FromFirstSeen:
		at = h.matchedSince.Add(h.InitialDelay + h.jitterOffset(p.Object.UID()))
	default:
		at = h.nextTime(p.Object, Latest(h.lastTick, p.firstSeen))
		if h.Schedule != nil && !at.IsZero() && at.Equal(h.lastScheduled) { // The clock was set back behind it.
			at = h.nextTime(p.Object, at)
		}
	}
	if at.IsZero() || h.Idle == 0 {
		return at
	}
	return Latest(at, h.WatchedSince.Add(h.Idle))
}

// capAtNextTime limits the delay of a timer to its next scheduled time. A timer with an initial
// delay has no times of its own, so a delay that its error requests replaces the interval.
func (h *Handler) capAtNextTime(c Call, now time.Time, delay time.Duration, err error) time.Duration {
	requested, _ := hook.RetryDelay(err)
	if c.Reason != hook.ReasonTimer || h.FromFirstSeen && requested > 0 {
		return delay
	}
	next := h.nextTime(c.Object, now)
	if h.Every > 0 {
		next = h.intervalStart(c, now).Add(h.Every)
	}
	if next.IsZero() {
		return delay
	}
	return min(delay, next.Sub(now))
}

// notAfter returns a time, or now if the clock shows less: it was set back, and what counts from that time must not
// wait until the clock shows it again.
func notAfter(t, now time.Time) time.Time {
	if t.Round(0).After(now.Round(0)) { // Without the readings of the monotonic clock, which is not set back.
		return now
	}
	return t
}

// jitterOffset returns the offset of an object's times, so that not all objects are called at
// once. It is the same in every process.
func (h *Handler) jitterOffset(uid string) time.Duration {
	if h.Jitter <= 0 {
		return 0
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(h.Name + "/" + uid)) // Writing to a hash never fails.
	return time.Duration(float64(hash.Sum64()) / math.MaxUint64 * float64(h.Jitter))
}

// createdAt returns when an object was created; long ago if unknown.
func createdAt(o *object.Object) time.Time {
	return cmp.Or(o.Time("creationTimestamp"), time.Unix(0, 0))
}

// Latest returns the later of two times.
func Latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// Earliest returns the earlier of two times; zero counts as none.
func Earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
