package model

import (
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// entry is one run that is kept. The account is the Book's own: nobody else has use for
// it once the run is over.
type entry struct {
	id           uint64
	older, newer *entry
	noops        int
	// size is what it takes, frame what of that is left when it is stripped.
	size, baseSize int
	run            record.Run
	// rendered are kept instead of what a run had in its hands that had a Secret in them.
	rendered *renderedRun
	// stripped says that what the run had in its hands is dropped.
	stripped bool
}

// summary is the run without what was asked and answered.
func (e *entry) summary() Run { return renderRun(e, false) }

// clone is the entry for who reads it while the Book goes on.
func (e *entry) clone() *entry {
	found := *e
	found.run.Steps = slices.Clone(e.run.Steps)
	for i := range found.run.Steps {
		s := &found.run.Steps[i]
		s.Call, s.Write = clonePtr(s.Call), clonePtr(s.Write)
		if s.Plan != nil {
			planned := record.Planned{Equal: s.Plan.Equal}
			for _, stage := range s.Plan.Stages {
				planned.Stages = append(planned.Stages, slices.Clone(stage))
			}
			s.Plan = &planned
		}
	}
	return &found
}

// clonePtr is a copy of what a pointer leads to.
func clonePtr[T any](of *T) *T {
	if of == nil {
		return nil
	}
	copied := *of
	return &copied
}

// strip drops what the run had in its hands, and all that keeps objects in memory.
func (e *entry) strip() {
	e.stripped = true
	if e.rendered != nil {
		e.rendered = e.rendered.withoutBodies()
	}
	for i := range e.run.Steps {
		switch s := &e.run.Steps[i]; {
		case s.Call != nil:
			s.Call.Request, s.Call.Response = reviewDecision(s.Call)
		case s.Write != nil:
			s.Write.Before, s.Write.After = nil, nil
		case s.Plan != nil:
			stripPlan(s.Plan)
		}
	}
	e.size = e.baseSize
}

// reviewDecision is what is left of a review: what it was about, and why it was denied.
func reviewDecision(a *record.Call) (q record.Request, answer record.Response) {
	if r := a.Request.Review; r != nil {
		q.Review = &hook.ReviewRequest{Operation: r.Operation, DryRun: r.DryRun}
	}
	if v := a.Response.Review; v != nil {
		answer.Review = &hook.ReviewResponse{Denial: v.Denial}
	}
	return q, answer
}

func stripPlan(p *record.Planned) {
	for _, stage := range p.Stages {
		for i := range stage {
			stage[i].Before, stage[i].After, stage[i].TakeOver = nil, nil, nil
		}
	}
}

// comparableTo says whether the run asked what another request is to be compared with.
func (e *entry) comparableTo(like *record.Call) bool {
	return slices.ContainsFunc(e.run.Steps, func(s record.Step) bool {
		return s.Call != nil && s.Call.Name == like.Name && like.Revision.ComparableTo(s.Call.Revision)
	})
}

// countOf is what a run adds to a series.
func countOf(run *record.Run) count {
	c := count{at: run.StartTime.Add(run.Duration), failed: run.Outcome == record.Failed || run.Outcome == reviewError}
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

// reviewError is the outcome of a review without a verdict.
const reviewError record.Outcome = "error"
