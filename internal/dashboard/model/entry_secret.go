package model

import (
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// renderedRun is what the history keeps of a run with Secrets: the rendered steps, with
// values masked.
type renderedRun struct {
	steps []Step
	err   string
	fault *Fault
}

// renderSecretRun renders a run that contains a Secret; nil for others.
func renderSecretRun(e *entry) *renderedRun {
	if !holdsSecret(&e.run) {
		return nil
	}
	words := renderRun(e, true)
	return &renderedRun{words.Steps, words.Error, words.Fault}
}

// setRendered replaces the bodies of the run.
func (e *entry) setRendered(w *renderedRun) {
	e.strip()
	e.rendered, e.stripped, e.run.Err = w, false, nil
	for i := range e.run.Steps {
		s := &e.run.Steps[i]
		switch {
		case s.Call != nil:
			s.Call.Request, s.Call.Response = record.Request{}, record.Response{}
		case s.Write != nil:
			s.Write.Err = nil
		case s.Event != nil:
			s.Event = &hook.Event{Type: s.Event.Type, Reason: s.Event.Reason}
		}
	}
	e.size = e.baseSize
	for i := range w.steps {
		e.size += sizeOfRendered(&w.steps[i])
	}
}

// stepsFor returns the steps, complete or for lists.
func (w *renderedRun) stepsFor(whole, dropped bool) []Step {
	steps := slices.Clone(w.steps)
	for i := range steps {
		s := &steps[i]
		s.Call, s.Plan, s.Write, s.Event = clonePtr(s.Call), clonePtr(s.Plan), clonePtr(s.Write), clonePtr(s.Event)
		if s.Call != nil {
			s.Call.Dropped = dropped
		}
		if s.Plan != nil {
			s.Plan.Actions = slices.Clone(s.Plan.Actions)
		}
		if !whole || dropped {
			s.summarize()
		}
	}
	return steps
}

// summarize removes what lists do not show.
func (s *Step) summarize() {
	switch {
	case s.Call != nil:
		s.Call.Request, s.Call.Response = nil, nil
		if s.Call.Review = clonePtr(s.Call.Review); s.Call.Review != nil {
			s.Call.Review.Requested, s.Call.Review.Changes = nil, nil
		}
	case s.Plan != nil:
		for i := range s.Plan.Actions {
			s.Plan.Actions[i].Changes = nil
		}
	case s.Write != nil:
		s.Write.Changes = nil
	}
}

// withoutBodies returns a copy without requests, responses and changes. Concurrent readers
// keep the original.
func (w *renderedRun) withoutBodies() *renderedRun {
	return &renderedRun{w.stepsFor(false, true), w.err, w.fault}
}

// sizeOfRendered returns the memory freed by withoutBodies.
func sizeOfRendered(s *Step) int {
	switch {
	case s.Call != nil:
		size := len(s.Call.Request) + len(s.Call.Response)
		if r := s.Call.Review; r != nil {
			size += len(r.Message) + sizeOfFields(r.Requested) + sizeOfFields(r.Changes)
		}
		return size
	case s.Plan != nil:
		size := 0
		for i := range s.Plan.Actions {
			size += sizeOfFields(s.Plan.Actions[i].Changes)
		}
		return size
	case s.Write != nil:
		return sizeOfFields(s.Write.Changes)
	}
	return 0
}

func sizeOfFields(changes []Change) int {
	size := 0
	for i := range changes {
		size += entrySize + len(changes[i].Path) + len(changes[i].From) + len(changes[i].To)
	}
	return size
}

// holdsSecret reports whether a run contains a Secret.
func holdsSecret(run *record.Run) bool {
	if isSecretResource(run.Resource) {
		return true
	}
	for i := range run.Steps {
		switch s := &run.Steps[i]; {
		case s.Call != nil && callHoldsSecret(s.Call):
			return true
		case s.Plan != nil && planHoldsSecret(s.Plan):
			return true
		case s.Write != nil && isSecretResource(s.Write.Resource):
			return true
		}
	}
	return false
}

func isSecretResource(r object.Resource) bool { return isSecret(r.APIVersion(), r.Kind) }

func planHoldsSecret(p *record.Planned) bool {
	for _, stage := range p.Stages {
		for i := range stage {
			if isSecretResource(stage[i].Resource) {
				return true
			}
		}
	}
	return false
}

func callHoldsSecret(call *record.Call) bool {
	return slices.ContainsFunc(requestObjects(&call.Request), mayHaveSecret) || slices.ContainsFunc(responseObjects(&call.Response), mayHaveSecret)
}

// requestObjects returns the JSON in a request that may contain objects.
func requestObjects(q *record.Request) []json.RawMessage {
	switch {
	case q.Sync != nil:
		return slices.Concat([]json.RawMessage{q.Sync.Parent}, groupObjects(q.Sync.Children), groupObjects(q.Sync.Related))
	case q.Customize != nil:
		return []json.RawMessage{q.Customize.Parent}
	case q.Handler != nil:
		return slices.Concat([]json.RawMessage{q.Handler.Object, q.Handler.PreviousState}, groupObjects(q.Handler.Owned))
	case q.Review != nil:
		return []json.RawMessage{q.Review.Object, q.Review.OldObject}
	}
	return nil
}

func groupObjects(groups []hook.Group) []json.RawMessage {
	var all []json.RawMessage
	for i := range groups {
		for j := range groups[i].Objects {
			all = append(all, groups[i].Objects[j].Object)
		}
	}
	return all
}

// responseObjects returns the JSON in a response that may contain objects.
func responseObjects(a *record.Response) []json.RawMessage {
	switch {
	case a.Sync != nil:
		return append(slices.Clone(a.Sync.Children), a.Sync.Status)
	case a.Handler != nil:
		all := []json.RawMessage{a.Handler.Patch, a.Handler.Status}
		for i := range a.Handler.Apply {
			all = append(all, a.Handler.Apply[i].Object)
		}
		return all
	case a.Review != nil:
		return []json.RawMessage{a.Review.Object, a.Review.Patch, a.Review.JSONPatch}
	}
	return nil
}
