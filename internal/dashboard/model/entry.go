package model

import (
	"slices"

	"github.com/setpoint-dev/setpoint/hook"
	"github.com/setpoint-dev/setpoint/internal/record"
)

// entry is a recorded run. The history owns the record.
type entry struct {
	id           uint64
	older, newer *entry
	noops        int
	// size is the memory used, baseSize the part that remains after strip.
	size, baseSize int
	run            record.Run
	// rendered replaces the bodies of a run that contained Secrets.
	rendered *renderedRun
	// stripped reports that the bodies were dropped.
	stripped bool
}

// summary returns the run without requests and responses.
func (e *entry) summary() Run { return renderRun(e, false) }

// clone copies an entry for use outside the lock.
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

// clonePtr copies the value of a pointer.
func clonePtr[T any](of *T) *T {
	if of == nil {
		return nil
	}
	copied := *of
	return &copied
}

// strip drops the bodies, and everything that references objects.
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

// reviewDecision returns what remains of a stripped review: the operation and the denial.
func reviewDecision(a *record.Call) (q record.Request, response record.Response) {
	if r := a.Request.Review; r != nil {
		q.Review = &hook.ReviewRequest{Operation: r.Operation, DryRun: r.DryRun}
	}
	if v := a.Response.Review; v != nil {
		response.Review = &hook.ReviewResponse{Denial: v.Denial}
	}
	return q, response
}

func stripPlan(p *record.Planned) {
	for _, stage := range p.Stages {
		for i := range stage {
			stage[i].Before, stage[i].After, stage[i].TakeOver = nil, nil, nil
		}
	}
}

// comparableTo reports whether the run has a call that is comparable to another one.
func (e *entry) comparableTo(like *record.Call) bool {
	return slices.ContainsFunc(e.run.Steps, func(s record.Step) bool {
		return s.Call != nil && s.Call.Name == like.Name && like.Revision.ComparableTo(s.Call.Revision)
	})
}

// countOf returns what a run adds to a series.
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

// reviewError is the outcome of a review without a response.
const reviewError record.Outcome = "error"
