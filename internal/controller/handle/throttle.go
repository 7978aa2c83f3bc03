package handle

import (
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"

	"github.com/setpoint-dev/setpoint/internal/controller"
)

// The rule by which an object is slowed down whose handlers are called again and again
// because of changes of any client: two controllers that undo each other must not
// spin. A user who edits an object never gets near it.
const (
	// burst is how many changes are served at once, however many handlers are called for
	// each. One more may come each refill.
	burst  = 50
	refill = time.Second
	// readOnlyCost is what a change costs for which nothing was written: it is part of a loop
	// only where the handler writes by itself.
	readOnlyCost = 0.25
	// maxInterval is the longest time between two runs of an object that is slowed.
	maxInterval = 30 * time.Second
	// resetAfter is how long no handler may have been called because of a change until that
	// is forgotten. It is longer than the longest spacing, by which the other side of a
	// conflict may be slowed.
	resetAfter = time.Minute
)

// throttle slows down one object.
type throttle struct {
	// spent is how much of the burst is used up, as of the time of the last run.
	spent   float64
	lastRun time.Time
	// runs is how many there were since the object was slowed; 0 if it is not.
	runs int
	// until is when handlers are called for changes again.
	until time.Time
	// message say what the conflict is about.
	message string
}

// add notes a run because of changes, and says whether the object is slowed from now on.
func (t *throttle) add(now time.Time, cost float64) (starts bool) {
	if !t.lastRun.IsZero() {
		t.spent = max(0, t.spent-now.Sub(t.lastRun).Seconds()/refill.Seconds())
	}
	t.spent += cost
	t.lastRun = now
	if t.runs == 0 && t.spent <= burst {
		return false
	}
	t.runs++
	t.until = now.Add(backoff(t.runs, firstDelay, maxInterval))
	return t.runs == 1
}

// isActive says that the object is slowed.
func (t *throttle) isActive() bool { return t.runs > 0 }

// blocks says that handlers are not to be called for changes yet.
func (t *throttle) blocks(now time.Time) bool { return t.isActive() && t.until.After(now) }

// endsAt is when the conflict is over if no handler is called for a change; zero if there
// is none.
func (t *throttle) endsAt() time.Time {
	if !t.isActive() {
		return time.Time{}
	}
	return t.lastRun.Add(resetAfter)
}

// reset forgets a conflict that is over, and says whether it did.
func (t *throttle) reset(now time.Time) (ends bool) {
	if ends = t.isActive() && !t.endsAt().After(now); ends {
		*t = throttle{}
	}
	return ends
}

// throttled says that handlers are not called for changes in this run.
func (r *run) throttled() bool {
	return r.memory.throttle.blocks(r.tools.Now()) && !r.retriesCalls() && !r.isDryRun
}

// isChange says that a call is made because something changed, for the first time.
func (c *call) isChange() bool {
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift, hook.ReasonEvent:
		return !c.repeated
	}
	return false
}

// countChange notes that a call is made, if it is because of a change.
func (r *run) countChange(c call) {
	if !c.isChange() || r.retriesCalls() {
		return
	}
	if r.latestChange != nil && r.latestChange.handler != c.handler {
		r.sameHandlerCount = 0
	}
	r.latestChange, r.sameHandlerCount = &c, r.sameHandlerCount+1
	r.changeCount = max(r.changeCount, r.sameHandlerCount)
}

// updateThrottle notes whether handlers were called because of a change, and tells when the object
// is slowed down for that, and when no longer.
func (r *run) updateThrottle() {
	now, t := r.tools.Now(), &r.memory.throttle
	if r.latestChange == nil {
		if t.reset(now) {
			r.resolved = true
			r.Log.Info("conflict resolved; object no longer throttled", "object", r.stored.Ref().String())
			r.sendEvent(hook.Event{Type: controller.Normal, Reason: ReasonConflictResolved, Message: "handlers of " + r.program.Name + " are no longer throttled"})
		}
		return
	}
	cost := float64(r.changeCount)
	if !r.written && !r.applied {
		cost *= readOnlyCost
	}
	if !t.add(now, cost) {
		return
	}
	t.message = r.conflictMessage(r.latestChange)
	r.Log.Warn("object throttled", "object", r.stored.Ref().String(), "reason", ReasonConflicting, "message", t.message)
	r.sendEvent(hook.Event{Type: controller.Warning, Reason: ReasonConflicting, Message: t.message})
}

// conflictMessage says what keeps an object from settling.
func (r *run) conflictMessage(c *call) string {
	h := &r.program.Handlers[c.handler]
	words := fmt.Sprintf("handlers run again and again because the object changes; they are throttled to one run in %s. The latest was %s on %s",
		maxInterval, h.Name, c.reason)
	var paths []string
	for _, change := range h.Changes(c.previous, c.changed()) {
		paths = append(paths, change.Path)
	}
	const most = 3
	if len(paths) > most {
		paths = append(paths[:most], fmt.Sprintf("%d more", len(paths)-most))
	}
	if len(paths) > 0 {
		words += " of " + strings.Join(paths, ", ")
	}
	return words + ". Another controller or handler may change the same fields"
}
