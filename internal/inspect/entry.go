package inspect

import (
	"iter"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// entry is one run that is kept. The account is the Book's own: nobody else has use for
// it once the run is over.
type entry struct {
	id           uint64
	older, newer *entry
	quiet        int
	// size is what it takes, frame what of that is left when it is stripped.
	size, frame int
	run         trace.Run
	// stripped says that what the run had in its hands is dropped.
	stripped bool
}

// brief is the run without what was asked and answered.
func (e *entry) brief() Run { return wordsOf(e, false) }

// copied is the entry for who reads it while the Book goes on.
func (e *entry) copied() *entry {
	found := *e
	found.run.Steps = slices.Clone(e.run.Steps)
	for i := range found.run.Steps {
		s := &found.run.Steps[i]
		s.Ask, s.Write = own(s.Ask), own(s.Write)
		if s.Plan != nil {
			planned := trace.Planned{Equal: s.Plan.Equal}
			for _, stage := range s.Plan.Stages {
				planned.Stages = append(planned.Stages, slices.Clone(stage))
			}
			s.Plan = &planned
		}
	}
	return &found
}

// own is a copy of what a pointer leads to.
func own[T any](of *T) *T {
	if of == nil {
		return nil
	}
	copied := *of
	return &copied
}

// strip drops what the run had in its hands, and all that keeps objects in memory.
func (e *entry) strip() {
	e.stripped = true
	for i := range e.run.Steps {
		switch s := &e.run.Steps[i]; {
		case s.Ask != nil:
			s.Ask.Question, s.Ask.Answer = trace.Question{}, trace.Answer{}
		case s.Write != nil:
			s.Write.Before, s.Write.After = nil, nil
		case s.Plan != nil:
			stripPlan(s.Plan)
		}
	}
	e.size = e.frame
}

func stripPlan(p *trace.Planned) {
	for _, stage := range p.Stages {
		for i := range stage {
			stage[i].Before, stage[i].After, stage[i].TakeOver = nil, nil, nil
		}
	}
}

// asks are what was asked in the run.
func (e *entry) asks() iter.Seq[string] {
	return func(yield func(string) bool) {
		for i := range e.run.Steps {
			if ask := e.run.Steps[i].Ask; ask != nil && !yield(ask.What) {
				return
			}
		}
	}
}

// What keeping things takes beside the JSON of objects, roughly.
const (
	runSize    = 700
	stepSize   = 250
	actionSize = 300
	entrySize  = 80
)

// frameOf is what an account keeps from being forgotten when it is stripped.
func frameOf(run *trace.Run) int {
	size := runSize + len(run.Causes.List())*entrySize + len(run.By) + len(run.UID) + sizeOfError(run.Err)
	for i := range run.Steps {
		size += stepSize + sizeOfFrame(&run.Steps[i])
	}
	return size
}

// sizeOfFrame is what is left of a step.
func sizeOfFrame(s *trace.Step) int {
	switch {
	case s.Ask != nil:
		return sizeOfError(s.Ask.Err)
	case s.Plan != nil:
		size := 0
		for _, stage := range s.Plan.Stages {
			size += len(stage) * actionSize
		}
		return size
	case s.Write != nil:
		return sizeOfError(s.Write.Err)
	case s.Event != nil:
		return len(s.Event.Reason) + len(s.Event.Message)
	}
	return 0
}

// sizeOfError is a guess where errors are made of others: all of them have their texts.
func sizeOfError(err error) int {
	if err == nil {
		return 0
	}
	return entrySize + len(err.Error())
}

// loadOf is what a run had in its hands, and what goes when it is stripped.
func loadOf(run *trace.Run) int {
	size := 0
	for i := range run.Steps {
		switch s := &run.Steps[i]; {
		case s.Ask != nil:
			size += sizeOfQuestion(&s.Ask.Question) + sizeOfAnswer(&s.Ask.Answer)
		case s.Plan != nil:
			size += sizeOfPlan(s.Plan)
		case s.Write != nil:
			size += sizeOfObject(s.Write.Before) + sizeOfObject(s.Write.After)
		}
	}
	return size
}

func sizeOfObject(o *object.Object) int {
	if o == nil {
		return 0
	}
	return o.Size() + entrySize
}

func sizeOfPlan(p *trace.Planned) int {
	size := 0
	for _, stage := range p.Stages {
		for i := range stage {
			size += sizeOfObject(stage[i].Before) + sizeOfObject(stage[i].After)
		}
	}
	return size
}

// sizeOfQuestion leaves out the controller, which all questions have in common.
func sizeOfQuestion(q *trace.Question) int {
	switch {
	case q.Sync != nil:
		return len(q.Sync.Parent) + sizeOfGroups(q.Sync.Children) + sizeOfGroups(q.Sync.Related)
	case q.Customize != nil:
		return len(q.Customize.Parent)
	case q.Notice != nil:
		return len(q.Notice.Object) + len(q.Notice.Old) + sizeOfGroups(q.Notice.Owned) + sizeOfChanges(q.Notice.Changes)
	case q.Review != nil:
		return len(q.Review.Object) + len(q.Review.Old) + runSize
	}
	return 0
}

func sizeOfChanges(changes []hook.FieldChange) int {
	size := 0
	for i := range changes {
		size += entrySize + len(changes[i].Path) + len(changes[i].Old) + len(changes[i].New)
	}
	return size
}

func sizeOfGroups(groups []hook.Group) int {
	size := 0
	for i := range groups {
		for j := range groups[i].Objects {
			size += entrySize + len(groups[i].Objects[j].Object)
		}
	}
	return size
}

func sizeOfAnswer(a *trace.Answer) int {
	switch {
	case a.Sync != nil:
		size := len(a.Sync.Status) + sizeOfEvents(a.Sync.Events)
		for _, child := range a.Sync.Children {
			size += len(child) + entrySize
		}
		return size
	case a.Customize != nil:
		return sizeOfRules(a.Customize.Related)
	case a.Notice != nil:
		size := len(a.Notice.Patch) + len(a.Notice.Status) + sizeOfEvents(a.Notice.Events)
		for _, applied := range a.Notice.Apply {
			size += len(applied.Object) + entrySize
		}
		return size
	case a.Review != nil:
		return len(a.Review.Object) + len(a.Review.Patch) + len(a.Review.JSONPatch)
	}
	return 0
}

func sizeOfEvents(events []hook.Event) int {
	size := 0
	for i := range events {
		size += entrySize + len(events[i].Reason) + len(events[i].Message)
	}
	return size
}

// selectorSize is that of a rule that selects by labels, roughly.
const selectorSize = 300

func sizeOfRules(rules []hook.RelatedRule) int {
	size := 0
	for i := range rules {
		size += 2*entrySize + selectorSize
		for _, name := range rules[i].Names {
			size += entrySize/2 + len(name)
		}
	}
	return size
}

// countOf is what a run adds to a series.
func countOf(run *trace.Run) count {
	c := count{at: run.Began.Add(run.Took), failed: run.Outcome == trace.Failed || run.Outcome == reviewError}
	for i := range run.Steps {
		switch s := &run.Steps[i]; {
		case s.Ask != nil:
			c.calls++
		case s.Write != nil:
			c.writes++
		}
	}
	if c.calls > 0 {
		c.took = run.Took
	}
	return c
}

// reviewError is the outcome of a review without a verdict.
const reviewError trace.Outcome = "error"
