package model

import (
	"slices"

	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// entry is a recorded run.
type entry struct {
	key objectKey
	// run is what lists show. If the run contained Secrets, it has the requests, responses and
	// changes too, masked.
	run Run
	// steps are the recorded steps, from which those of any other run are rendered; nil if they
	// were dropped.
	steps    []record.Step
	resource object.Resource
	// size is the memory used.
	size int
}

// newEntry returns the entry of a run, whose objects it shares. It keeps no values of Secrets.
func newEntry(run *record.Run) *entry {
	m := memory{secret: run.Resource.GroupKind().IsSecret()}
	m.add(run.Steps)
	e := &entry{key: objectKeyOf(run), run: renderRun(run, m.secret), resource: run.Resource}
	e.size = sizeOf(e.run)
	if !m.secret {
		e.steps = run.Steps
		e.size += m.bytes
	}
	return e
}

// isAllowed reports whether the entry is a review that allowed its request.
func (e *entry) isAllowed() bool {
	return e.run.Outcome == ReviewAllowed || e.run.Outcome == ReviewMutated
}

// view returns the run without requests, responses and changes. It belongs to the caller.
func (e *entry) view() Run {
	run := e.full()
	for i := range run.Steps {
		run.Steps[i].summarize()
	}
	return run
}

// full returns the run as it is kept.
func (e *entry) full() Run {
	run := e.run
	run.Causes, run.Steps = slices.Clone(run.Causes), slices.Clone(run.Steps)
	for i := range run.Steps {
		s := &run.Steps[i]
		s.Call, s.Plan, s.Write, s.Event = clonePtr(s.Call), clonePtr(s.Plan), clonePtr(s.Write), clonePtr(s.Event)
		if s.Plan != nil {
			s.Plan.Actions = slices.Clone(s.Plan.Actions)
		}
	}
	return run
}

// clonePtr copies the value of a pointer.
func clonePtr[T any](of *T) *T {
	if of == nil {
		return nil
	}
	copied := *of
	return &copied
}

// strip drops requests, responses and changes, and everything that references objects.
func (e *entry) strip() {
	e.run, e.steps = e.view(), nil
	for i := range e.run.Steps {
		if call := e.run.Steps[i].Call; call != nil {
			call.Dropped = true
		}
	}
	e.size = sizeOf(e.run)
}

// summarize removes what lists do not show.
func (s *Step) summarize() {
	switch {
	case s.Call != nil:
		s.Call.Request, s.Call.Response = nil, nil
		if s.Call.Review = clonePtr(s.Call.Review); s.Call.Review != nil {
			s.Call.Review.Groups, s.Call.Review.Requested, s.Call.Review.Changes = nil, nil, nil
		}
	case s.Plan != nil:
		for i := range s.Plan.Actions {
			s.Plan.Actions[i].Changes = nil
		}
	case s.Write != nil:
		s.Write.Changes = nil
	}
}

// LastComparable returns the last call whose request is comparable to that of another call.
func LastComparable(steps []Step, like *Call) *Call {
	for _, step := range slices.Backward(steps) {
		if step.Call != nil && step.Call.Name == like.Name && revisionOf(like).ComparableTo(revisionOf(step.Call)) {
			return step.Call
		}
	}
	return nil
}

func revisionOf(call *Call) Revision {
	if call.Revision == nil {
		return Revision{}
	}
	return *call.Revision
}

// countOf returns what a run adds to a series.
func countOf(run *record.Run) count {
	c := count{at: run.StartTime.Add(run.Duration), failed: run.Outcome == record.Failed}
	for i := range run.Steps {
		switch s := &run.Steps[i]; {
		case s.Call != nil:
			c.calls++
		case s.Write != nil:
			c.writes++
		}
	}
	if c.calls > 0 {
		c.took = run.Duration
	}
	return c
}

// objectKey identifies an object in any version.
type objectKey struct {
	kind            object.GroupKind
	plural          string
	namespace, name string
}

// objectKeyOf returns the key of a run's object. Its strings do not reference the object.
func objectKeyOf(run *record.Run) objectKey {
	return objectKey{run.Resource.GroupKind(), run.Resource.Plural, run.Key.Namespace, run.Key.Name}
}

// matches reports whether a Ref, which may lack the kind or the plural, is that object. Reviews
// of subresources have another kind, such as Scale.
func (n objectKey) matches(ref object.Ref) bool {
	named := ref.Kind.Kind == n.kind.Kind || ref.Plural != "" && ref.Plural == n.plural
	return named && ref.Group == n.kind.Group && ref.Namespace == n.namespace && ref.Name == n.name
}
