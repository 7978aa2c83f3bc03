package trigger

import (
	"cmp"
	"fmt"
	"hash/fnv"
	"math"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
)

// The limits of throttling: two controllers that undo each other's changes must not loop at
// full speed. A user who edits an object stays far below.
const (
	// Burst is the number of changes that are handled without delay, however many handlers
	// each calls. One more is allowed each refill.
	Burst  = 50
	Refill = time.Second
	// readOnlyCost is the cost of a change without a write: it is part of a loop only if the handler writes by itself.
	readOnlyCost = 0.25
	// maxInterval is the maximum time between two runs of a throttled object.
	maxInterval = 30 * time.Second
	// resetAfter is how long no handler may be called for a change until the throttle resets.
	// It is longer than maxInterval, by which the other side of a conflict may be throttled.
	resetAfter = time.Minute
)

func (t *throttle) IsActive() bool { return t.runs > 0 }

// endsAt returns when the throttle resets without further changes; zero if inactive.
func (t *throttle) endsAt() time.Time {
	if !t.IsActive() {
		return time.Time{}
	}
	return t.lastRun.Add(resetAfter)
}

// Throttled reports whether handlers are not called for changes in this run.
func (p *Pass) Throttled() bool {
	return p.Throttle.until.After(p.Now()) && !p.RetriesCalls() && !p.Dry
}

// CountChange counts a call, if it is for a change.
func (p *Pass) CountChange(c Call) {
	if !c.isChange() || p.RetriesCalls() {
		return
	}
	if p.latestChange != nil && p.latestChange.Handler != c.Handler {
		p.sameHandlerCount = 0
	}
	p.latestChange, p.sameHandlerCount = &c, p.sameHandlerCount+1
	p.changeCount = max(p.changeCount, p.sameHandlerCount)
}

// CountRun updates the throttle after the calls of a run, which wrote something or not, and reports whether it starts or
// ends.
func (p *Pass) CountRun(wrote bool) (starts, ends bool) {
	t, now := &p.Throttle, p.Now()
	if p.latestChange == nil {
		if ends = t.IsActive() && !t.endsAt().After(now); ends {
			*t = throttle{}
		}
		return false, ends
	}
	cost := float64(p.changeCount)
	if !wrote {
		cost *= readOnlyCost
	}
	t.spent = max(0, t.spent-now.Sub(t.lastRun).Seconds()/Refill.Seconds()) + cost
	t.lastRun = now
	if t.IsActive() || t.spent > Burst {
		t.runs++
		t.until = now.Add(BackoffAfter(t.runs, FirstDelay, maxInterval, p.Random))
	}
	return t.runs == 1, false
}

// ConflictMessage describes which changes keep calling handlers.
func (p *Pass) ConflictMessage() string {
	c := p.latestChange
	words := fmt.Sprintf("handlers run again and again because the object changes; they are throttled to one run in %s. The latest was "+
		"%s on %s",
		maxInterval, c.Handler.Title(), c.Reason)
	changes := c.Handler.Changes(c.Previous, cmp.Or(c.Event.New, c.Object))
	paths := lists.Map(changes, func(change hook.FieldChange) string { return change.Path })
	const most = 3
	if len(paths) > most {
		paths = append(paths[:most], fmt.Sprintf("%d more", len(paths)-most))
	}
	if len(paths) > 0 {
		words += " of " + strings.Join(paths, ", ")
	}
	return words + ". Another controller or handler may change the same fields"
}

func (p *Pass) observeTimer(h *State, now time.Time) {
	h.lastTick = notAfter(h.lastTick, now)
	switch {
	case !h.FromFirstSeen:
	case !p.MayTick(h):
		h.matchedSince, h.lastTick = time.Time{}, time.Time{}
	case h.matchedSince.IsZero():
		h.matchedSince = now
	}
}

// MayTick reports whether the handler has a timer that runs for the object.
func (v *Observation) MayTick(h *State) bool {
	return h.isTimer() && !v.Object.Deleting() && v.meets(h, hook.ReasonTimer, nil, v.Object) && !v.declines(h, hook.ReasonTimer)
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

// intervalStart returns the time from which the next call is counted: that of the ended call, or now if the interval
// has passed since, if the handler counts from the end of a call, or if a calendar decides.
func (h *Handler) intervalStart(c Call, now time.Time) time.Time {
	if h.Every > 0 && now.Before(c.scheduledAt.Add(h.Every)) && (h.Sharp || !h.FromFirstSeen) {
		return c.scheduledAt
	}
	return now
}

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
