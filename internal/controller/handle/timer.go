package handle

import (
	"encoding/json"
	"hash/fnv"
	"math"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// hasTimer says whether the clock has a say in when a handler is told.
func (h *Handler) hasTimer() bool { return h.Every > 0 || h.Schedule != nil }

// nextTime is the first moment of a timer after a time; zero if there is none. The
// moments of an interval lie on a grid that begins when the object was created, until a
// call is late: see counted.
func (h *Handler) nextTime(o *object.Object, after time.Time) time.Time {
	shift := h.jitterOffset(o.UID())
	if h.Schedule != nil {
		next := h.Schedule.Next(after.Add(-shift))
		if next.IsZero() {
			return next
		}
		return next.Add(shift)
	}
	begin := createdAt(o).Add(shift)
	if after.Before(begin) {
		return begin.Add(h.Every)
	}
	passed := after.Sub(begin)
	return begin.Add(passed - passed%h.Every + h.Every)
}

// intervalStart is the moment that the next one is counted from after a call that has ended:
// its own, or now if the interval has passed since, or a calendar says what comes next.
func (h *Handler) intervalStart(c call, now time.Time) time.Time {
	if h.Every > 0 && now.Before(c.scheduledAt.Add(h.Every)) {
		return c.scheduledAt
	}
	return now
}

// jitterOffset is how far the moments of one object lie behind those of others, so that
// not all are told at once. It is the same in every process.
func (h *Handler) jitterOffset(uid string) time.Duration {
	if h.Jitter <= 0 {
		return 0
	}
	hash := fnv.New64a()
	_, _ = hash.Write([]byte(h.Name + "/" + uid)) // Hashes take everything.
	return time.Duration(float64(hash.Sum64()) / math.MaxUint64 * float64(h.Jitter))
}

// createdAt is when an object was created; long ago if it does not say.
func createdAt(o *object.Object) time.Time {
	if at := timeIn(o, "creationTimestamp"); !at.IsZero() {
		return at
	}
	return time.Unix(0, 0)
}

// timeIn is a time in the metadata of an object; zero if there is none.
func timeIn(o *object.Object, name string) time.Time {
	var at time.Time
	if field := o.Field("metadata", name); field != nil {
		// The API server writes nothing but times there.
		_ = json.Unmarshal(field, &at)
	}
	return at
}

// latest is the later of two times.
func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// earliest is the earlier of two times, of which zero is none.
func earliest(a, b time.Time) time.Time {
	if a.IsZero() || !b.IsZero() && b.Before(a) {
		return b
	}
	return a
}
