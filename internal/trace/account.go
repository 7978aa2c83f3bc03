package trace

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Account is a Run in the making. A nil Account takes note of nothing: a rehearsal
// has none. Its methods may be called by several goroutines.
type Account struct {
	now func() time.Time
	// brief says that nobody keeps more than how long the run took and how it ended.
	brief bool

	mu  sync.Mutex
	run Run
	// refused is where writes were.
	refused []Place
}

// Open begins the account of a run, as far as that is known at the start.
func Open(run Run, now func() time.Time) *Account {
	if run.Began.IsZero() {
		run.Began = now()
	}
	return &Account{run: run, now: now}
}

// Brief is Open where accounts are not kept: it takes note of no step, so that it costs
// nothing but the time it began.
func Brief(run Run, now func() time.Time) *Account {
	a := Open(run, now)
	a.brief = true
	return a
}

// Whole says that it takes note of everything.
func (a *Account) Whole() bool { return a != nil && !a.brief }

// Was says how many runs had failed in a row before.
func (a *Account) Was(failed int) {
	if !a.Whole() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run.Attempt = failed
}

// Now is when a step begins.
func (a *Account) Now() time.Time {
	if !a.Whole() {
		return time.Time{}
	}
	return a.now()
}

// Asked notes a question and its answer.
func (a *Account) Asked(began time.Time, ask Ask) {
	if a.Whole() {
		a.add(began, Step{Ask: new(ask)})
	}
}

// Planned notes what was decided, and how many children were as they should be.
// Nothing about nothing is not worth a step.
func (a *Account) Planned(p plan.Plan, equal int) {
	if a.Whole() && (!p.Empty() || equal > 0) {
		a.add(a.now(), Step{Plan: &Planned{Stages: p.Stages, Equal: equal}})
	}
}

// Carried notes what became of the actions of a plan.
func (a *Account) Carried(began time.Time, results []apply.Result) {
	for i := range results {
		if r := &results[i]; r.Err != nil {
			a.refuse(r.Action.Resource, r.Action.Ref.Namespace)
		}
	}
	if !a.Whole() || len(results) == 0 {
		return
	}
	writes, steps := make([]Write, len(results)), make([]Step, len(results))
	for i := range results {
		r, w := &results[i], &writes[i]
		w.Verb, w.Resource, w.Ref, w.Err = r.Action.Verb, r.Action.Resource, r.Action.Ref, r.Err
		w.Unchanged = r.Err == nil && !r.Changed()
		if r.Stored != nil {
			w.Version = r.Stored.Version()
		}
		steps[i].Write = w
	}
	a.add(began, steps...)
}

// Wrote notes a write that no plan has: of an object as it was, and as it is stored
// now, nil if it is gone or the write failed. Without a verb it is an update, without
// a Ref it is about Before.
func (a *Account) Wrote(began time.Time, w Write) {
	if w.Ref == (object.Ref{}) && w.Before != nil {
		w.Ref = w.Before.Ref()
	}
	if w.Err != nil {
		a.refuse(w.Resource, w.Ref.Namespace)
	}
	if !a.Whole() {
		return
	}
	if w.Verb == "" {
		w.Verb = plan.Update
	}
	if w.After != nil {
		w.Version = w.After.Version()
		w.Unchanged = w.Before != nil && w.Before.Version() == w.Version
	}
	a.add(began, Step{Write: new(w)})
}

// Told notes an event.
func (a *Account) Told(event hook.Event) {
	if a.Whole() {
		a.add(a.now(), Step{Event: new(event)})
	}
}

// Failed notes what a run failed with; of several errors the first.
func (a *Account) Failed(err error) {
	if !a.Whole() || err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.run.Err == nil {
		a.run.Err = err
	}
}

// refuse notes where a write was refused, of which a brief account takes note too: what
// is remembered of the object may quote the answer.
func (a *Account) refuse(resource object.Resource, namespace string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = With(a.refused, Place{resource, strings.Clone(namespace)})
}

// Refused is where writes were refused so far, each place once.
func (a *Account) Refused() []Place {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.refused)
}

// With are places with some more, each once.
func With(places []Place, more ...Place) []Place {
	for _, place := range more {
		if !slices.Contains(places, place) {
			places = append(places, place)
		}
	}
	return places
}

// usualSteps is how many most runs have that do something.
const usualSteps = 8

func (a *Account) add(began time.Time, steps ...Step) {
	took := a.now().Sub(began)
	a.mu.Lock()
	defer a.mu.Unlock()
	at := began.Sub(a.run.Began)
	for i := range steps {
		steps[i].At, steps[i].Took = at, took
	}
	if a.run.Steps == nil {
		a.run.Steps = make([]Step, 0, max(usualSteps, len(steps)))
	}
	a.run.Steps = append(a.run.Steps, steps...)
}

// Close ends the account.
func (a *Account) Close(outcome Outcome) Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run.Outcome = outcome
	a.run.Took = a.now().Sub(a.run.Began)
	return a.run
}

// Steps says whether anything was done so far.
func (a *Account) Steps() int {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.run.Steps)
}
