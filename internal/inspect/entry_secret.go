package inspect

import (
	"encoding/json"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// keptWords are what a Book keeps of a run that had a Secret in its hands: what it tells
// of it, with the values masked, and nothing that has them.
type keptWords struct {
	steps []Step
	err   string
	fault *Fault
}

// wordsOfSecrets are those of a run; nil if it had no Secret in its hands.
func wordsOfSecrets(e *entry) *keptWords {
	if !holdsSecret(&e.run) {
		return nil
	}
	words := wordsOf(e, true)
	return &keptWords{words.Steps, words.Error, words.Fault}
}

// keep replaces what the run had in its hands.
func (e *entry) keep(w *keptWords) {
	e.strip()
	e.words, e.stripped, e.run.Err = w, false, nil
	for i := range e.run.Steps {
		s := &e.run.Steps[i]
		switch {
		case s.Ask != nil:
			s.Ask.Question, s.Ask.Answer = trace.Question{}, trace.Answer{}
		case s.Write != nil:
			s.Write.Err = nil
		case s.Event != nil:
			s.Event = &hook.Event{Type: s.Event.Type, Reason: s.Event.Reason}
		}
	}
	e.size = e.frame
	for i := range w.steps {
		e.size += sizeOfWords(&w.steps[i])
	}
}

// tell are the words, those of all fields or of a list. What was dropped is missing.
func (w *keptWords) tell(whole, dropped bool) []Step {
	steps := slices.Clone(w.steps)
	for i := range steps {
		s := &steps[i]
		s.Ask, s.Plan, s.Write, s.Event = own(s.Ask), own(s.Plan), own(s.Write), own(s.Event)
		if s.Ask != nil {
			s.Ask.Dropped = dropped
		}
		if s.Plan != nil {
			s.Plan.Actions = slices.Clone(s.Plan.Actions)
		}
		if !whole || dropped {
			s.shorten()
		}
	}
	return steps
}

// shorten leaves out what is not told in lists.
func (s *Step) shorten() {
	switch {
	case s.Ask != nil:
		s.Ask.Request, s.Ask.Reply = nil, nil
		if s.Ask.Review = own(s.Ask.Review); s.Ask.Review != nil {
			s.Ask.Review.Requested, s.Ask.Review.Changes = nil, nil
		}
	case s.Plan != nil:
		for i := range s.Plan.Actions {
			s.Plan.Actions[i].Changes = nil
		}
	case s.Write != nil:
		s.Write.Changes = nil
	}
}

// dropped are the words without what is not told in lists. Who reads them meanwhile has
// the others.
func (w *keptWords) dropped() *keptWords { return &keptWords{w.tell(false, true), w.err, w.fault} }

// sizeOfWords is what goes when they are dropped.
func sizeOfWords(s *Step) int {
	switch {
	case s.Ask != nil:
		size := len(s.Ask.Request) + len(s.Ask.Reply)
		if r := s.Ask.Review; r != nil {
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

// holdsSecret says whether a run had a Secret in its hands.
func holdsSecret(run *trace.Run) bool {
	if ofSecret(run.Resource) {
		return true
	}
	for i := range run.Steps {
		switch s := &run.Steps[i]; {
		case s.Ask != nil && holdSecret(s.Ask):
			return true
		case s.Plan != nil && planHoldsSecret(s.Plan):
			return true
		case s.Write != nil && ofSecret(s.Write.Resource):
			return true
		}
	}
	return false
}

func ofSecret(r object.Resource) bool { return isSecret(r.APIVersion(), r.Kind) }

func planHoldsSecret(p *trace.Planned) bool {
	for _, stage := range p.Stages {
		for i := range stage {
			if ofSecret(stage[i].Resource) {
				return true
			}
		}
	}
	return false
}

func holdSecret(ask *trace.Ask) bool {
	return slices.ContainsFunc(textsOfQuestion(&ask.Question), mayHaveSecret) || slices.ContainsFunc(textsOfAnswer(&ask.Answer), mayHaveSecret)
}

// textsOfQuestion is all JSON in a request that an object may be in.
func textsOfQuestion(q *trace.Question) []json.RawMessage {
	switch {
	case q.Sync != nil:
		return slices.Concat([]json.RawMessage{q.Sync.Parent}, textsOfGroups(q.Sync.Children), textsOfGroups(q.Sync.Related))
	case q.Customize != nil:
		return []json.RawMessage{q.Customize.Parent}
	case q.Notice != nil:
		return slices.Concat([]json.RawMessage{q.Notice.Object, q.Notice.Old}, textsOfGroups(q.Notice.Owned))
	case q.Review != nil:
		return []json.RawMessage{q.Review.Object, q.Review.Old}
	}
	return nil
}

func textsOfGroups(groups []hook.Group) []json.RawMessage {
	var all []json.RawMessage
	for i := range groups {
		for j := range groups[i].Objects {
			all = append(all, groups[i].Objects[j].Object)
		}
	}
	return all
}

// textsOfAnswer is all JSON in a response that an object may be in.
func textsOfAnswer(a *trace.Answer) []json.RawMessage {
	switch {
	case a.Sync != nil:
		return append(slices.Clone(a.Sync.Children), a.Sync.Status)
	case a.Notice != nil:
		all := []json.RawMessage{a.Notice.Patch, a.Notice.Status}
		for i := range a.Notice.Apply {
			all = append(all, a.Notice.Apply[i].Object)
		}
		return all
	case a.Review != nil:
		return []json.RawMessage{a.Review.Object, a.Review.Patch, a.Review.JSONPatch}
	}
	return nil
}
