package record

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/apply"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/plan"
)

// Record builds a Run. A nil Record, as in a dry run, records nothing. All methods are safe for concurrent use.
type Record struct {
	now func() time.Time
	// summary limits the record to duration, outcome and refused locations.
	summary bool

	mu  sync.Mutex
	run Run
	// refused lists the locations of refused writes.
	refused []Location
}

// New starts a record with the fields known at the start.
func New(run Run, now func() time.Time) *Record {
	if run.Began.IsZero() {
		run.Began = now()
	}
	return &Record{run: run, now: now}
}

// NewSummary starts a record without steps, for when no observer stores them. It costs one look at the clock.
func NewSummary(run Run, now func() time.Time) *Record {
	a := New(run, now)
	a.summary = true
	return a
}

// Detailed reports whether a records steps.
func (a *Record) Detailed() bool { return a != nil && !a.summary }

// Now returns the start time for a step; zero if steps are not recorded.
func (a *Record) Now() time.Time {
	if !a.Detailed() {
		return time.Time{}
	}
	return a.now()
}

// Called records a call.
func (a *Record) Called(began time.Time, call Call) {
	if a.Detailed() {
		a.add(began, Step{Call: new(call)})
	}
}

// Planned records a plan and the number of unchanged children. It omits an empty plan.
func (a *Record) Planned(p plan.Plan, equal int) {
	if a.Detailed() && (!p.Empty() || equal > 0) {
		a.add(a.now(), Step{Plan: &Planned{Stages: p.Stages, Unchanged: equal}})
	}
}

// Applied records the results of a plan's actions.
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
		w.Verb, w.Object, w.Err = string(r.Action.Verb), r.Action.Resource.Ref(r.Action.Ref.Namespace, r.Action.Ref.Name), r.Err
		w.Unchanged = r.Err == nil && !r.Changed()
		if r.Stored != nil {
			w.Version = versionOf(r.Stored)
		}
		steps[i].Write = w
	}
	a.add(began, steps...)
}

// Wrote records a write outside plans, of an object of a resource. After is nil if the object is gone or the write
// failed. Verb defaults to update, and Object to Before.
func (a *Record) Wrote(began time.Time, resource object.Resource, w Write) {
	if a == nil {
		return
	}
	if w.Object == (object.Ref{}) && w.Before != nil {
		w.Object = w.Before.Ref()
	}
	w.Object = resource.Ref(w.Object.Namespace, w.Object.Name)
	if w.Err != nil {
		a.addRefused(resource, w.Object.Namespace)
	}
	if !a.Detailed() {
		return
	}
	if w.Verb == "" {
		w.Verb = string(plan.Update)
	}
	if w.After != nil {
		w.Version = versionOf(w.After)
		w.Unchanged = w.Before != nil && w.Before.Version() == w.After.Version() && !deletes(w.Before, w.After)
	}
	a.add(began, Step{Write: new(w)})
}

func versionOf(o *object.Object) string {
	if o.Version() == 0 {
		return ""
	}
	return strconv.FormatUint(o.Version(), 10)
}

// deletes reports whether a write removed the last finalizer of an object in deletion: the server then deletes the
// object, and responds with the version that it had.
func deletes(before, after *object.Object) bool {
	return before.Deleting() && len(before.Finalizers()) > 0 && len(after.Finalizers()) == 0
}

// EventSent records an emitted event.
func (a *Record) EventSent(event hook.Event) {
	if a.Detailed() {
		a.add(a.now(), Step{Event: new(event)})
	}
}

// Failed records the error of the run, in a summary too. The first error wins.
func (a *Record) Failed(err error) {
	a.locked(func() {
		if a.run.Err == nil {
			a.run.Err = err
		}
	})
}

// Error returns the error of the run so far.
func (a *Record) Error() (err error) {
	a.locked(func() { err = a.run.Err })
	return err
}

// Steps returns the number of steps so far.
func (a *Record) Steps() (n int) {
	a.locked(func() { n = len(a.run.Steps) })
	return n
}

// Refused returns the distinct locations of refused writes so far.
func (a *Record) Refused() (refused []Location) {
	a.locked(func() { refused = slices.Clone(a.refused) })
	return refused
}

func (a *Record) locked(do func()) {
	if a == nil {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	do()
}

// addRefused records the location of a refused write, in a summary too: the stored error
// may quote the API server's response.
func (a *Record) addRefused(resource object.Resource, namespace string) {
	a.locked(func() {
		a.refused = AddLocations(a.refused, Location{object.KindOf(resource), strings.Clone(namespace)})
	})
}

// AddLocations appends to locations those of more that it lacks.
func AddLocations(locations []Location, more ...Location) []Location {
	return lists.Union(locations, more)
}

// typicalSteps is the number of steps in most runs that write.
const typicalSteps = 8

func (a *Record) add(began time.Time, steps ...Step) {
	took := a.now().Sub(began)
	a.mu.Lock()
	defer a.mu.Unlock()
	at := began.Sub(a.run.Began)
	for i := range steps {
		steps[i].At, steps[i].Took = at, took
	}
	if a.run.Steps == nil {
		a.run.Steps = make([]Step, 0, max(typicalSteps, len(steps)))
	}
	a.run.Steps = append(a.run.Steps, steps...)
}

// Finish completes the record and returns the Run.
func (a *Record) Finish(outcome Outcome) Run {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.run.Outcome = outcome
	a.run.Took = a.now().Sub(a.run.Began)
	return a.run
}

// IsNoop reports whether the run changed nothing and is not worth storing.
func (r *Run) IsNoop() bool {
	return len(r.Steps) == 0 && (r.Outcome == Skipped || r.Outcome == Postponed && r.Err == nil)
}
