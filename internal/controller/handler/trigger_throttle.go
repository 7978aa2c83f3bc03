package handler

import (
	"fmt"
	"strings"
	"time"
)

// The limits of throttling: two controllers that undo each other's changes must not loop at
// full speed. A user who edits an object stays far below.
const (
	// burst is the number of changes that are handled without delay, however many handlers
	// each calls. One more is allowed each refill.
	burst  = 50
	refill = time.Second
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
	// message describes the conflict.
	message string
}

// add records a run because of changes and reports whether the throttle becomes active.
func (t *throttle) add(now time.Time, cost float64, random func() float64) (starts bool) {
	if !t.lastRun.IsZero() {
		t.spent = max(0, t.spent-now.Sub(t.lastRun).Seconds()/refill.Seconds())
	}
	t.spent += cost
	t.lastRun = now
	if t.runs == 0 && t.spent <= burst {
		return false
	}
	t.runs++
	t.until = now.Add(backoff(t.runs, firstDelay, maxInterval, random))
	return t.runs == 1
}

// isActive reports whether the object is throttled.
func (t *throttle) isActive() bool { return t.runs > 0 }

// blocks reports whether handlers must not be called for changes yet.
func (t *throttle) blocks(now time.Time) bool { return t.isActive() && t.until.After(now) }

// endsAt returns when the throttle resets without further changes; zero if inactive.
func (t *throttle) endsAt() time.Time {
	if !t.isActive() {
		return time.Time{}
	}
	return t.lastRun.Add(resetAfter)
}

// reset clears a throttle whose time is over and reports whether it did.
func (t *throttle) reset(now time.Time) (ends bool) {
	if ends = t.isActive() && !t.endsAt().After(now); ends {
		*t = throttle{}
	}
	return ends
}

// throttled reports whether handlers are not called for changes in this run.
func (p *Pass) throttled() bool {
	return p.throttle.blocks(p.now()) && !p.retriesCalls() && !p.dry
}

// countChange counts a call, if it is for a change.
func (p *Pass) countChange(c call) {
	if !c.isChange() || p.retriesCalls() {
		return
	}
	if p.latestChange != nil && p.latestChange.handler != c.handler {
		p.sameHandlerCount = 0
	}
	p.latestChange, p.sameHandlerCount = &c, p.sameHandlerCount+1
	p.changeCount = max(p.changeCount, p.sameHandlerCount)
}

// countRun updates the throttle after the calls of a run, which wrote something or not, and reports whether it starts or
// ends.
func (p *Pass) countRun(wrote bool) (starts, ends bool) {
	if p.latestChange == nil {
		return false, p.throttle.reset(p.now())
	}
	cost := float64(p.changeCount)
	if !wrote {
		cost *= readOnlyCost
	}
	return p.throttle.add(p.now(), cost, p.random), false
}

// conflictMessage describes which changes keep calling handlers.
func (p *Pass) conflictMessage() string {
	c := p.latestChange
	words := fmt.Sprintf("handlers run again and again because the object changes; they are throttled to one run in %s. The latest was "+
		"%s on %s",
		maxInterval, c.handler.title(), c.reason)
	var paths []string
	for _, change := range c.handler.Changes(c.previous, c.changed()) {
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
