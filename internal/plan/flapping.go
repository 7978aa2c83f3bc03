package plan

import (
	"cmp"
	"slices"
	"time"

	"github.com/setpoint-dev/setpoint/internal/object"
)

// When a child counts as flapping, and what follows.
const (
	// patience is how many writes for one reason are taken as they come, within
	// the window.
	patience = 5
	window   = time.Minute
	// shortestRest and longestRest bound how long a flapping child is left
	// alone; each further write doubles it.
	shortestRest = 10 * time.Second
	longestRest  = 30 * time.Second
)

// Flapping finds the children of one parent that are written again and again
// although the wish for them has not changed: somebody else keeps changing them,
// or the server does. Its zero value is ready. It has no clock of its own.
type Flapping struct{ fits map[id]*fit }

// fit is a child that was written to lately.
type fit struct {
	ref     object.Ref
	desired uint64
	reason  string
	// writes are the times of the latest ones, the oldest first.
	writes []time.Time
	rest   time.Duration
	until  time.Time
	// manager is the field manager that changes it, as far as that is known.
	manager string
}

// Fit is a flapping child, for messages.
type Fit struct {
	Ref object.Ref
	// Reason is what each write was for, such as "data.colour differs".
	Reason string
	// Manager is the field manager of another client that changes it; "" if it is not
	// known, or the API server does.
	Manager string
	// Until is how long it is left alone.
	Until time.Time
	// Over is when it counts as calm if nothing is written to it before.
	Over time.Time
}

// Wrote notes that a child was brought in line. A new wish begins anew. It
// returns whether the child is to be left alone from now on, for a while.
func (f *Flapping) Wrote(a Action, now time.Time) (rests bool) {
	if !bringsInLine(a) {
		return false
	}
	name := idOf(a.Before)
	one := f.fits[name]
	if one == nil || one.desired != a.Desired || one.reason != a.Reason || one.quiet(now) {
		one = &fit{ref: a.Ref, desired: a.Desired, reason: a.Reason}
		if f.fits == nil {
			f.fits = map[id]*fit{}
		}
		f.fits[name] = one
	}
	return one.wrote(now)
}

// bringsInLine tells the writes that correct a child from those that make,
// claim or remove one.
func bringsInLine(a Action) bool {
	return a.Before != nil && a.Verb != Adopt && a.Verb != Release && a.Reason != noLongerDesired
}

// ChangedBy notes which field manager changes the child of an action.
func (f *Flapping) ChangedBy(a Action, manager string) {
	if one := f.fits[idOf(a.Before)]; one != nil {
		one.manager = manager
	}
}

func (o *fit) wrote(now time.Time) (rests bool) {
	o.writes = append(o.writes, now)
	if len(o.writes) > patience {
		o.writes = o.writes[1:]
	}
	if len(o.writes) < patience || now.Sub(o.writes[0]) > max(window, time.Duration(patience)*2*o.rest) {
		return false
	}
	o.rest = min(max(2*o.rest, shortestRest), longestRest)
	o.until = now.Add(o.rest)
	return true
}

// quiet says that the last write is so long ago that it has nothing to do with
// the next.
func (o *fit) quiet(now time.Time) bool {
	return !now.Before(o.over())
}

func (o *fit) over() time.Time { return o.writes[len(o.writes)-1].Add(window + 2*o.rest) }

// Calm takes out of a plan what would be written to flapping children before
// their rest is over. It returns the plan that is left and when the first of
// them may be written again; zero if none rests.
func (f *Flapping) Calm(p Plan, now time.Time) (calm Plan, until time.Time) {
	if len(f.fits) == 0 {
		return p, time.Time{}
	}
	calm.Equal = p.Equal
	for _, stage := range p.Stages {
		var kept []Action
		for _, a := range stage {
			if one := f.restOf(a, now); one != nil {
				until = earlier(until, one.until)
				continue
			}
			kept = append(kept, a)
		}
		if len(kept) > 0 {
			calm.Stages = append(calm.Stages, kept)
		}
	}
	return calm, until
}

// restOf is the rest that an action would disturb, or nil.
func (f *Flapping) restOf(a Action, now time.Time) *fit {
	if !bringsInLine(a) {
		return nil
	}
	if one := f.fits[idOf(a.Before)]; one != nil && one.desired == a.Desired && now.Before(one.until) {
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

// Fits lists the children that are flapping, sorted by name, and forgets those that
// have been quiet.
func (f *Flapping) Fits(now time.Time) []Fit {
	var all []Fit
	for name, one := range f.fits {
		switch {
		case one.quiet(now):
			delete(f.fits, name)
		case one.rest > 0:
			all = append(all, Fit{Ref: one.ref, Reason: one.reason, Manager: one.manager, Until: one.until, Over: one.over()})
		}
	}
	slices.SortFunc(all, func(a, b Fit) int { return cmp.Compare(a.Ref.String(), b.Ref.String()) })
	return all
}
