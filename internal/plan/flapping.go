package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// When a child counts as flapping, and what follows.
const (
	// flappingWrites is how many writes for one reason are taken as they come, within
	// the window.
	flappingWrites = 5
	flappingWindow = time.Minute
	// minFlappingBackoff and maxFlappingBackoff bound how long a flapping child is left
	// alone; each further write doubles it.
	minFlappingBackoff = 10 * time.Second
	maxFlappingBackoff = 30 * time.Second
)

// Flapping finds the children of one parent that are written again and again
// although the wish for them has not changed: somebody else keeps changing them,
// or the server does. Its zero value is ready. It has no clock of its own.
type Flapping struct{ children map[id]*flappingChild }

// flappingChild is a child that was written to lately.
type flappingChild struct {
	ref     object.Ref
	desired uint64
	reason  string
	// writes are the times of the latest ones, the oldest first.
	writes  []time.Time
	backoff time.Duration
	until   time.Time
	// manager is the field manager that changes it, as far as that is known.
	manager string
}

// FlappingChild is a flapping child, for messages.
type FlappingChild struct {
	Ref object.Ref
	// Reason is what each write was for, such as "data.colour differs".
	Reason string
	// Manager is the field manager of another client that changes it; "" if it is not
	// known, or the API server does.
	Manager string
	// Until is how long it is left alone.
	Until time.Time
	// ExpiresAt is when it counts as calm if nothing is written to it before.
	ExpiresAt time.Time
}

// RecordWrite notes that a child was brought in line. A new wish begins anew. It
// returns whether the child is to be left alone from now on, for a while.
func (f *Flapping) RecordWrite(a Action, now time.Time) (throttled bool) {
	if !isCorrection(a) {
		return false
	}
	name := idOf(a.Before)
	one := f.children[name]
	if one == nil || one.desired != a.Desired || one.reason != a.Reason || one.expired(now) {
		one = &flappingChild{ref: a.Ref, desired: a.Desired, reason: a.Reason}
		if f.children == nil {
			f.children = map[id]*flappingChild{}
		}
		f.children[name] = one
	}
	return one.recordWrite(now)
}

// isCorrection tells the writes that correct a child from those that make,
// claim or remove one.
func isCorrection(a Action) bool {
	return a.Before != nil && a.Verb != Adopt && a.Verb != Release && a.Reason != noLongerDesired
}

// SetManager notes which field manager changes the child of an action.
func (f *Flapping) SetManager(a Action, manager string) {
	if one := f.children[idOf(a.Before)]; one != nil {
		one.manager = manager
	}
}

func (o *flappingChild) recordWrite(now time.Time) (throttled bool) {
	o.writes = append(o.writes, now)
	if len(o.writes) > flappingWrites {
		o.writes = o.writes[1:]
	}
	if len(o.writes) < flappingWrites || now.Sub(o.writes[0]) > max(flappingWindow, time.Duration(flappingWrites)*2*o.backoff) {
		return false
	}
	o.backoff = min(max(2*o.backoff, minFlappingBackoff), maxFlappingBackoff)
	o.until = now.Add(o.backoff)
	return true
}

// expired says that the last write is so long ago that it has nothing to do with
// the next.
func (o *flappingChild) expired(now time.Time) bool {
	return !now.Before(o.expiresAt())
}

func (o *flappingChild) expiresAt() time.Time {
	return o.writes[len(o.writes)-1].Add(flappingWindow + 2*o.backoff)
}

// Throttle takes out of a plan what would be written to flapping children before
// their rest is over. It returns the plan that is left and when the first of
// them may be written again; zero if none rests.
func (f *Flapping) Throttle(p Plan, now time.Time) (throttled Plan, until time.Time) {
	if len(f.children) == 0 {
		return p, time.Time{}
	}
	throttled.Equal = p.Equal
	for _, stage := range p.Stages {
		var kept []Action
		for _, a := range stage {
			if one := f.throttledBy(a, now); one != nil {
				until = earlier(until, one.until)
				continue
			}
			kept = append(kept, a)
		}
		if len(kept) > 0 {
			throttled.Stages = append(throttled.Stages, kept)
		}
	}
	return throttled, until
}

// throttledBy is the rest that an action would disturb, or nil.
func (f *Flapping) throttledBy(a Action, now time.Time) *flappingChild {
	if !isCorrection(a) {
		return nil
	}
	if one := f.children[idOf(a.Before)]; one != nil && one.desired == a.Desired && now.Before(one.until) {
		return one
	}
	return nil
}

func earlier(a, b time.Time) time.Time {
	if a.IsZero() || b.Before(a) {
		return b
	}
	return a
}

// Children lists the children that are flapping, sorted by name, and forgets those that
// have been quiet.
func (f *Flapping) Children(now time.Time) []FlappingChild {
	var all []FlappingChild
	for name, one := range f.children {
		switch {
		case one.expired(now):
			delete(f.children, name)
		case one.backoff > 0:
			all = append(all, FlappingChild{Ref: one.ref, Reason: one.reason, Manager: one.manager, Until: one.until, ExpiresAt: one.expiresAt()})
		}
	}
	slices.SortFunc(all, func(a, b FlappingChild) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
	return all
}
