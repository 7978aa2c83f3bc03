package handler

import (
	"cmp"
	"hash/fnv"
	"math"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

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
	begin := earliest(createdAt(o), after).Add(shift) // The clock of the API server may be ahead.
	if after.Before(begin) {
		return begin.Add(h.Every)
	}
	passed := after.Sub(begin)
	return begin.Add(passed - passed%h.Every + h.Every)
}

// intervalStart returns the time from which the next call is counted: that of the ended call,
// or now if the interval has passed since, if the handler counts from the end of a call, or if a
// calendar decides.
func (h *Handler) intervalStart(c call, now time.Time) time.Time {
	if h.Every > 0 && now.Before(c.scheduledAt.Add(h.Every)) && (h.Sharp || !h.FromFirstSeen) {
		return c.scheduledAt
	}
	return now
}

// ticked notes that a scheduled call has ended.
func (m *handlerMemory) ticked(c call, now time.Time) {
	m.lastTick, m.lastScheduled = m.intervalStart(c, now), c.scheduledAt
}

// nextTick returns the next time of a timer; zero if the timer cannot fire.
func (r *run) nextTick(h *handlerMemory) time.Time {
	var at time.Time
	switch {
	case h.Every > 0 && !h.lastTick.IsZero():
		at = h.lastTick.Add(h.Every)
	case h.FromFirstSeen:
		at = h.matchedSince.Add(h.InitialDelay + h.jitterOffset(r.Stored.UID()))
	default:
		at = h.nextTime(r.Stored, latest(h.lastTick, r.memory.firstSeen))
		if h.Schedule != nil && !at.IsZero() && at.Equal(h.lastScheduled) { // The clock was set back behind it.
			at = h.nextTime(r.Stored, at)
		}
	}
	if at.IsZero() || h.Idle == 0 {
		return at
	}
	return latest(at, h.watchedSince.Add(h.Idle))
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

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest returns the earlier of two times; zero counts as none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
