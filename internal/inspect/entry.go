package inspect

import (
	"iter"
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/object"
	"github.com/setpoint-dev/setpoint/internal/trace"
)

// entry is one run that is kept.
type entry struct {
	id           uint64
	older, newer *entry
	quiet        int
	size         int
	// run is the account. Once words is set, which is all that is left of it, it has
	// no more than the names by which it is found.
	run   trace.Run
	words *Run
}

// brief is the run without what was asked and answered.
func (e *entry) brief() Run {
	if e.words != nil {
		run := *e.words
		run.Steps = slices.Clone(run.Steps)
		for i := range run.Steps {
			if ask := run.Steps[i].Ask; ask != nil {
				own := *ask
				run.Steps[i].Ask = &own
			}
		}
		return run
	}
	return wordsOf(e, false)
}

// whole is all that is kept of the run.
func (e *entry) whole() Run {
	if e.words != nil {
		return e.brief()
	}
	return wordsOf(e, true)
}

// strip keeps of the run no more than words.
func (e *entry) strip() {
	words := wordsOf(e, false)
	for i := range words.Steps {
		if ask := words.Steps[i].Ask; ask != nil {
			ask.Dropped = true
		}
	}
	e.words = &words
	e.run = trace.Run{Program: e.run.Program, Resource: e.run.Resource, Key: e.run.Key}
	e.size = sizeOfWords(&words)
}

// asks are what was asked in the run.
func (e *entry) asks() iter.Seq[string] {
	return func(yield func(string) bool) {
		if e.words == nil {
			for i := range e.run.Steps {
				if ask := e.run.Steps[i].Ask; ask != nil && !yield(ask.What) {
					return
				}
			}
			return
		}
		for i := range e.words.Steps {
			if ask := e.words.Steps[i].Ask; ask != nil && !yield(ask.What) {
				return
			}
		}
	}
}

// What keeping things takes beside the JSON of objects, roughly.
const (
	runSize    = 500
	stepSize   = 250
	actionSize = 300
	entrySize  = 80
)

// sizeOf is what an account keeps from being forgotten.
func sizeOf(run *trace.Run) int {
	size := runSize + len(run.Causes.List())*entrySize + len(run.By)
	for i := range run.Steps {
		size += stepSize + sizeOfStep(&run.Steps[i])
	}
	return size
}

func sizeOfStep(s *trace.Step) int {
	switch {
	case s.Ask != nil:
		return sizeOfQuestion(&s.Ask.Question) + sizeOfAnswer(&s.Ask.Answer)
	case s.Plan != nil:
		return sizeOfPlan(s.Plan)
	case s.Write != nil:
		return sizeOfObject(s.Write.Before) + sizeOfObject(s.Write.After)
	case s.Event != nil:
		return len(s.Event.Message)
	}
	return 0
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
			size += actionSize + sizeOfObject(stage[i].Before) + sizeOfObject(stage[i].After)
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
		return len(q.Notice.Object) + len(q.Notice.Old) + sizeOfGroups(q.Notice.Owned)
	case q.Review != nil:
		return len(q.Review.Object) + len(q.Review.Old) + runSize
	}
	return 0
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
		size := len(a.Sync.Status)
		for _, child := range a.Sync.Children {
			size += len(child) + entrySize
		}
		return size
	case a.Customize != nil:
		return len(a.Customize.Related) * entrySize
	case a.Notice != nil:
		size := len(a.Notice.Patch) + len(a.Notice.Status)
		for _, applied := range a.Notice.Apply {
			size += len(applied.Object) + entrySize
		}
		return size
	case a.Review != nil:
		return len(a.Review.Object) + len(a.Review.Patch) + len(a.Review.JSONPatch)
	}
	return 0
}

// sizeOfWords is what a run takes of which words alone are kept.
func sizeOfWords(run *Run) int {
	size := runSize + len(run.Error)
	for _, cause := range run.Causes {
		size += len(cause) + entrySize/4
	}
	for i := range run.Steps {
		s := &run.Steps[i]
		size += stepSize
		if s.Plan != nil {
			size += len(s.Plan.Actions) * actionSize
		}
		if s.Event != nil {
			size += len(s.Event.Message)
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
