package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// When a child counts as flapping, and how long its writes are delayed.
const (
	// flappingWrites is how many writes with the same reason within
	// flappingWindow make a child flapping.
	flappingWrites = 5
	flappingWindow = time.Minute
	// minFlappingBackoff and maxFlappingBackoff bound the backoff, which doubles with each write.
	minFlappingBackoff = 10 * time.Second
	maxFlappingBackoff = 30 * time.Second
)

// Flapping finds children of one parent that are written repeatedly although their desired state is
// unchanged, because another client or the server changes them. Its zero value is ready.
type Flapping struct{ children map[id]*flappingChild }

// flappingChild is a child with recent writes.
type flappingChild struct {
	FlappingChild

	desired uint64
	// writes are the times of the latest writes, oldest first.
	writes  []time.Time
	backoff time.Duration
}

// FlappingChild describes a flapping child.
type FlappingChild struct {
	Ref object.Ref
	// Reason is the reason of the writes, such as "data.colour differs".
	Reason string
	// Manager is the field manager that changes the child; "" if it is not known or the API server
	// does.
	Manager string
	// Until is when the next write is allowed.
	Until time.Time
	// ExpiresAt is when the child is no longer flapping if nothing is written before.
	ExpiresAt time.Time
}

// RecordWrite records a write and reports whether writes to the child are throttled now. It starts
// over if the desired child has changed.
func (f *Flapping) RecordWrite(a Action, now time.Time) (throttled bool) {
	if !isCorrection(a) {
		return false
	}
	name := idOf(a.Before)
	one := f.children[name]
	if one == nil || one.desired != a.Desired || one.Reason != a.Reason || one.expired(now) {
		one = &flappingChild{FlappingChild: FlappingChild{Ref: a.Ref, Reason: a.Reason}, desired: a.Desired}
		if f.children == nil {
			f.children = map[id]*flappingChild{}
		}
		f.children[name] = one
	}
	return one.recordWrite(now)
}

// isCorrection reports whether a write corrects a child, as opposed to one that creates, claims or
// removes it.
func isCorrection(a Action) bool {
	return a.Before != nil && a.Verb != Adopt && a.Verb != Release && a.Reason != noLongerDesired
}

// SetManager sets the field manager that changes the child of an action.
func (f *Flapping) SetManager(a Action, manager string) {
	if one := f.children[idOf(a.Before)]; one != nil {
		one.Manager = manager
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
	o.Until = now.Add(o.backoff)
	return true
}

// expired reports whether the last write is too old to count.
func (o *flappingChild) expired(now time.Time) bool {
	return !now.Before(o.expiresAt())
}

func (o *flappingChild) expiresAt() time.Time {
	return o.writes[len(o.writes)-1].Add(flappingWindow + 2*o.backoff)
}

// Throttle removes writes to flapping children from a plan. It returns the rest, and when the first
// of the removed writes is allowed; zero if there is none.
func (f *Flapping) Throttle(p Plan, now time.Time) (throttled Plan, until time.Time) {
	if len(f.children) == 0 {
		return p, time.Time{}
	}
	throttled.Equal = p.Equal
	for _, stage := range p.Stages {
		var kept []Action
		for _, a := range stage {
			if one := f.throttledBy(a, now); one != nil {
				until = earlier(until, one.Until)
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

// throttledBy returns the child that delays an action, or nil.
func (f *Flapping) throttledBy(a Action, now time.Time) *flappingChild {
	if !isCorrection(a) {
		return nil
	}
	if one := f.children[idOf(a.Before)]; one != nil && one.desired == a.Desired && now.Before(one.Until) {
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

// Children returns the flapping children, sorted by name, and drops those that have expired.
func (f *Flapping) Children(now time.Time) []FlappingChild {
	var all []FlappingChild
	for name, one := range f.children {
		switch {
		case one.expired(now):
			delete(f.children, name)
		case one.backoff > 0:
			one.ExpiresAt = one.expiresAt()
			all = append(all, one.FlappingChild)
		}
	}
	slices.SortFunc(all, func(a, b FlappingChild) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
	return all
}
