package inspect

import (
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
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
	// words are kept instead of what a run had in its hands that had a Secret in them.
	words *keptWords
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
	if e.words != nil {
		e.words = e.words.dropped()
	}
	for i := range e.run.Steps {
		switch s := &e.run.Steps[i]; {
		case s.Ask != nil:
			s.Ask.Question, s.Ask.Answer = decisionOf(s.Ask)
		case s.Write != nil:
			s.Write.Before, s.Write.After = nil, nil
		case s.Plan != nil:
			stripPlan(s.Plan)
		}
	}
	e.size = e.frame
}

// decisionOf is what is left of a review: what it was about, and why it was denied.
func decisionOf(a *trace.Ask) (q trace.Question, answer trace.Answer) {
	if r := a.Question.Review; r != nil {
		q.Review = &hook.Review{Operation: r.Operation, DryRun: r.DryRun}
	}
	if v := a.Answer.Review; v != nil {
		answer.Review = &hook.Verdict{Denial: v.Denial}
	}
	return q, answer
}

func stripPlan(p *trace.Planned) {
	for _, stage := range p.Stages {
		for i := range stage {
			stage[i].Before, stage[i].After, stage[i].TakeOver = nil, nil, nil
		}
	}
}

// asked says whether the run asked what another request is to be compared with.
func (e *entry) asked(like *trace.Ask) bool {
	return slices.ContainsFunc(e.run.Steps, func(s trace.Step) bool {
		return s.Ask != nil && s.Ask.What == like.What && like.Revision.Follows(s.Ask.Revision)
	})
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
