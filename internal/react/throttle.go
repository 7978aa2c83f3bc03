package react

import (
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
)

// The rule by which an object is slowed down whose handlers are called again and again
// because of changes of any client: two controllers that undo each other must not
// spin. A user who edits an object never gets near it.
const (
	// burst is how many changes are served at once, however many handlers are called for
	// each. One more may come each refill.
	burst  = 50
	refill = time.Second
	// observed is what a change costs for which nothing was written: it is part of a loop
	// only where the handler writes by itself.
	observed = 0.25
	// longestSpacing is the longest time between two runs of an object that is slowed.
	longestSpacing = 30 * time.Second
	// restAfter is how long no handler may have been called because of a change until that
	// is forgotten. It is longer than the longest spacing, by which the other side of a
	// conflict may be slowed.
	restAfter = time.Minute
)

// throttle slows down one object.
type throttle struct {
	// spent is how much of the burst is used up, as of the time of the last run.
	spent float64
	last  time.Time
	// runs is how many there were since the object was slowed; 0 if it is not.
	runs int
	// until is when handlers are called for changes again.
	until time.Time
	// words say what the conflict is about.
	words string
}

// ran notes a run because of changes, and says whether the object is slowed from now on.
func (t *throttle) ran(now time.Time, cost float64) (begins bool) {
	if !t.last.IsZero() {
		t.spent = max(0, t.spent-now.Sub(t.last).Seconds()/refill.Seconds())
	}
	t.spent += cost
	t.last = now
	if t.runs == 0 && t.spent <= burst {
		return false
	}
	t.runs++
	t.until = now.Add(backoff(t.runs, firstDelay, longestSpacing))
	return t.runs == 1
}

// slows says that the object is slowed.
func (t *throttle) slows() bool { return t.runs > 0 }

// holds says that handlers are not to be called for changes yet.
func (t *throttle) holds(now time.Time) bool { return t.slows() && t.until.After(now) }

// over is when the conflict is over if no handler is called for a change; zero if there
// is none.
func (t *throttle) over() time.Time {
	if !t.slows() {
		return time.Time{}
	}
	return t.last.Add(restAfter)
}

// rest forgets a conflict that is over, and says whether it did.
func (t *throttle) rest(now time.Time) (ends bool) {
	if ends = t.slows() && !t.over().After(now); ends {
		*t = throttle{}
	}
	return ends
}

// slowed says that handlers are not called for changes in this run.
func (r *run) slowed() bool {
	return r.memory.throttle.holds(r.tools.Now()) && !r.urged() && !r.rehearsed
}

// isChange says that a call is made because something changed, for the first time.
func (c *call) isChange() bool {
	switch c.reason {
	case hook.ReasonCreate, hook.ReasonUpdate, hook.ReasonDrift, hook.ReasonEvent:
		return !c.repeated
	}
	return false
}

// count notes that a call is made, if it is because of a change.
func (r *run) count(c call) {
	if !c.isChange() || r.urged() {
		return
	}
	if r.change != nil && r.change.handler != c.handler {
		r.inARow = 0
	}
	r.change, r.inARow = &c, r.inARow+1
	r.changes = max(r.changes, r.inARow)
}

// pace notes whether handlers were called because of a change, and tells when the object
// is slowed down for that, and when no longer.
func (r *run) pace() {
	now, t := r.tools.Now(), &r.memory.throttle
	if r.change == nil {
		if t.rest(now) {
			r.resolved = true
			r.log.Info("conflict over; object is no longer slowed", "object", r.stored.Ref().String())
			r.say(hook.Event{Type: normal, Reason: ReasonConflictResolved, Message: "handlers of " + r.program.Name + " are called without delay again"})
		}
		return
	}
	cost := float64(r.changes)
	if !r.written && !r.applied {
		cost *= observed
	}
	if !t.ran(now, cost) {
		return
	}
	t.words = r.conflict(r.change)
	r.log.Warn("object slowed", "object", r.stored.Ref().String(), "reason", ReasonConflicting, "message", t.words)
	r.say(hook.Event{Type: warning, Reason: ReasonConflicting, Message: t.words})
}

// conflict says what keeps an object from settling.
func (r *run) conflict(c *call) string {
	h := &r.program.Handlers[c.handler]
	words := fmt.Sprintf("handlers run again and again because the object changes; they are slowed to at most one run in %s. The latest was %s, for %s",
		longestSpacing, h.Name, c.reason)
	var paths []string
	for _, change := range h.Changes(c.old, c.changed()) {
		paths = append(paths, change.Path)
	}
	const most = 3
	if len(paths) > most {
		paths = append(paths[:most], fmt.Sprintf("%d more", len(paths)-most))
	}
	if len(paths) > 0 {
		words += " of " + strings.Join(paths, ", ")
	}
	return words + ". Another controller, or another handler, may change what they write"
}
