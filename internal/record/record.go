package record

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

// Record is a Run in the making. A nil Account takes note of nothing: a rehearsal
// has none. Its methods may be called by several goroutines.
type Record struct {
	now func() time.Time
	// summary says that nobody keeps more than how long the run took and how it ended.
	summary bool

	mu  sync.Mutex
	run Run
	// refused is where writes were.
	refused []Location
}

// New begins the account of a run, as far as that is known at the start.
func New(run Run, now func() time.Time) *Record {
	if run.StartTime.IsZero() {
		run.StartTime = now()
	}
	return &Record{run: run, now: now}
}

// NewSummary is Open where accounts are not kept: it takes note of no step, so that it costs
// nothing but the time it began.
func NewSummary(run Run, now func() time.Time) *Record {
	a := New(run, now)
	a.summary = true
	return a
}

// Detailed says that it takes note of everything.
func (a *Record) Detailed() bool { return a != nil && !a.summary }

// SetAttempt says how many runs had failed in a row before.
func (a *Record) SetAttempt(failed int) {
	if !a.Detailed() {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run.Attempt = failed
}

// Now is when a step begins.
func (a *Record) Now() time.Time {
	if !a.Detailed() {
		return time.Time{}
	}
	return a.now()
}

// Called notes a question and its answer.
func (a *Record) Called(began time.Time, call Call) {
	if a.Detailed() {
		a.add(began, Step{Call: new(call)})
	}
}

// Planned notes what was decided, and how many children were as they should be.
// Nothing about nothing is not worth a step.
func (a *Record) Planned(p plan.Plan, equal int) {
	if a.Detailed() && (!p.Empty() || equal > 0) {
		a.add(a.now(), Step{Plan: &Planned{Stages: p.Stages, Equal: equal}})
	}
}

// Applied notes what became of the actions of a plan.
func (a *Record) Applied(began time.Time, results []apply.Result) {
	for i := range results {
		if r := &results[i]; r.Err != nil {
			a.addRefused(r.Action.Resource, r.Action.Ref.Namespace)
		}
	}
	if !a.Detailed() || len(results) == 0 {
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
func (a *Record) Wrote(began time.Time, w Write) {
	if w.Ref == (object.Ref{}) && w.Before != nil {
		w.Ref = w.Before.Ref()
	}
	if w.Err != nil {
		a.addRefused(w.Resource, w.Ref.Namespace)
	}
	if !a.Detailed() {
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

// EventSent notes an event.
func (a *Record) EventSent(event hook.Event) {
	if a.Detailed() {
		a.add(a.now(), Step{Event: new(event)})
	}
}

// Failed notes what a run failed with; of several errors the first.
func (a *Record) Failed(err error) {
	if !a.Detailed() || err == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.run.Err == nil {
		a.run.Err = err
	}
}

// addRefused notes where a write was refused, of which a brief account takes note too: what
// is remembered of the object may quote the answer.
func (a *Record) addRefused(resource object.Resource, namespace string) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.refused = AddLocations(a.refused, Location{resource, strings.Clone(namespace)})
}

// Refused is where writes were refused so far, each place once.
func (a *Record) Refused() []Location {
	if a == nil {
		return nil
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.refused)
}

// AddLocations are places with some more, each once.
func AddLocations(locations []Location, more ...Location) []Location {
	for _, location := range more {
		if !slices.Contains(locations, location) {
			locations = append(locations, location)
		}
	}
	return locations
}

// typicalSteps is how many most runs have that do something.
const typicalSteps = 8

func (a *Record) add(began time.Time, steps ...Step) {
	took := a.now().Sub(began)
	a.mu.Lock()
	defer a.mu.Unlock()
	at := began.Sub(a.run.StartTime)
	for i := range steps {
		steps[i].Offset, steps[i].Duration = at, took
	}
	if a.run.Steps == nil {
		a.run.Steps = make([]Step, 0, max(typicalSteps, len(steps)))
	}
	a.run.Steps = append(a.run.Steps, steps...)
}

// Finish ends the account.
func (a *Record) Finish(outcome Outcome) Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run.Outcome = outcome
	a.run.Duration = a.now().Sub(a.run.StartTime)
	return a.run
}

// Steps says whether anything was done so far.
func (a *Record) Steps() int {
	if a == nil {
		return 0
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	return len(a.run.Steps)
}
