package trace

import (
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

	mu  sync.Mutex
	run Run
}

// Open begins the account of a run, as far as that is known at the start.
func Open(run Run, now func() time.Time) *Account {
	if run.Began.IsZero() {
		run.Began = now()
	}
	return &Account{run: run, now: now}
}

// Was says how many runs had failed in a row before.
func (a *Account) Was(failed int) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run.Attempt = failed
}

// Now is when a step begins.
func (a *Account) Now() time.Time {
	if a == nil {
		return time.Time{}
	}
	return a.now()
}

// Asked notes a question and its answer.
func (a *Account) Asked(began time.Time, ask Ask) {
	if a != nil {
		a.add(began, Step{Ask: &ask})
	}
}

// Planned notes what was decided, and how many children were as they should be.
// Nothing about nothing is not worth a step.
func (a *Account) Planned(p plan.Plan, equal int) {
	if a != nil && (!p.Empty() || equal > 0) {
		a.add(a.now(), Step{Plan: &Planned{Stages: p.Stages, Equal: equal}})
	}
}

// Carried notes what became of the actions of a plan.
func (a *Account) Carried(began time.Time, results []apply.Result) {
	if a == nil {
		return
	}
	for i := range results {
		w := WriteOf(results[i].Stored, results[i].Err)
		w.Verb, w.Resource, w.Ref = results[i].Action.Verb, results[i].Action.Resource, results[i].Action.Ref
		w.Unchanged = results[i].Err == nil && !results[i].Changed()
		a.add(began, Step{Write: &w})
	}
}

// WriteOf is a write as far as the API server's answer says.
func WriteOf(stored *object.Object, err error) Write {
	w := Write{Err: err}
	if stored != nil {
		w.Version = stored.Version()
	}
	return w
}

// Wrote notes a write that no plan has: of an object as it was, and as it is stored
// now, nil if it is gone or the write failed. Without a verb it is an update, without
// a Ref it is about Before.
func (a *Account) Wrote(began time.Time, w Write) {
	if a == nil {
		return
	}
	if w.Verb == "" {
		w.Verb = plan.Update
	}
	if w.Ref == (object.Ref{}) && w.Before != nil {
		w.Ref = w.Before.Ref()
	}
	if w.After != nil {
		w.Version = w.After.Version()
		w.Unchanged = w.Before != nil && w.Before.Version() == w.Version
	}
	a.add(began, Step{Write: &w})
}

// Told notes an event.
func (a *Account) Told(event hook.Event) {
	if a != nil {
		a.add(a.now(), Step{Event: &event})
	}
}

// Failed notes what a run failed with; of several errors the first.
func (a *Account) Failed(err error) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.run.Err == nil {
		a.run.Err = err
	}
}

func (a *Account) add(began time.Time, s Step) {
	s.Took = a.now().Sub(began)
	a.mu.Lock()
	defer a.mu.Unlock()
	s.At = began.Sub(a.run.Began)
	a.run.Steps = append(a.run.Steps, s)
}

// Close ends the account. next is when the run is known to come again.
func (a *Account) Close(outcome Outcome, next time.Time) Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run.Outcome, a.run.Next = outcome, next
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
