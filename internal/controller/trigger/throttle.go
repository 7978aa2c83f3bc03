package trigger

import (
	"cmp"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/lists"
)

// The limits of throttling: two controllers that undo each other's changes must not loop at
// full speed. A user who edits an object stays far below.
const (
	// Burst is the number of changes that are handled without delay, however many handlers
	// each calls. One more is allowed each refill.
	Burst  = 50
	Refill = time.Second
	// readOnlyCost is the cost of a change without a write: it is part of a loop only if the
	// handler writes by itself.
	readOnlyCost = 0.25
	// maxInterval is the maximum time between two runs of a throttled object.
	maxInterval = 30 * time.Second
	// resetAfter is how long no handler may be called for a change until the throttle resets.
	// It is longer than maxInterval, by which the other side of a conflict may be throttled.
	resetAfter = time.Minute
)

// throttle slows down one flapping object.
type throttle struct {
	// spent is the used part of the burst at the last run.
	spent   float64
	lastRun time.Time
	// runs counts the runs since the throttle became active; 0 if inactive.
	runs int
	// until is when handlers are called for changes again.
	until time.Time
	// Message describes the conflict.
	Message string
}

// add records a run because of changes and reports whether the throttle becomes active.
func (t *throttle) add(now time.Time, cost float64, random func() float64) (starts bool) {
	if !t.lastRun.IsZero() {
		t.spent = max(0, t.spent-now.Sub(t.lastRun).Seconds()/Refill.Seconds())
	}
	t.spent += cost
	t.lastRun = now
	if t.runs == 0 && t.spent <= Burst {
		return false
	}
	t.runs++
	t.until = now.Add(Backoff(t.runs, FirstDelay, maxInterval, random))
	return t.runs == 1
}

// IsActive reports whether the object is throttled.
func (t *throttle) IsActive() bool { return t.runs > 0 }

// blocks reports whether handlers must not be called for changes yet.
func (t *throttle) blocks(now time.Time) bool { return t.IsActive() && t.until.After(now) }

// endsAt returns when the throttle resets without further changes; zero if inactive.
func (t *throttle) endsAt() time.Time {
	if !t.IsActive() {
		return time.Time{}
	}
	return t.lastRun.Add(resetAfter)
}

// reset clears a throttle whose time is over and reports whether it did.
func (t *throttle) reset(now time.Time) (ends bool) {
	if ends = t.IsActive() && !t.endsAt().After(now); ends {
		*t = throttle{}
	}
	return ends
}

// Throttled reports whether handlers are not called for changes in this run.
func (p *Pass) Throttled() bool {
	return p.Throttle.blocks(p.Now()) && !p.RetriesCalls() && !p.Dry
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
	if p.latestChange == nil {
		return false, p.Throttle.reset(p.Now())
	}
	cost := float64(p.changeCount)
	if !wrote {
		cost *= readOnlyCost
	}
	return p.Throttle.add(p.Now(), cost, p.Random), false
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
