package test

import (
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/cli/command"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/dev/progress"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/explore/document"
	"github.com/setpoint-dev/setpoint/internal/testcase"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// testPlan is what to run.
type testPlan struct {
	workspace    *workspace.Workspace
	cases        []*testcase.Case
	explorations []*document.Exploration
	stories      []*story
	// known are all explorations, for the replay of what they found.
	known []*document.Exploration
	// sampled means that the files have no test, and that the controllers are explored with their samples instead.
	sampled bool
	// progress shows how far explorations are; only on a terminal.
	progress *progress.Reporter
}

// size is the number of tests.
func (t *testPlan) size() int { return len(t.cases) + len(t.explorations) + len(t.stories) }

// plan returns the tests of the chosen parts.
func (f *testFlags) plan(w *workspace.Workspace, names *regexp.Regexp) (t *testPlan, err error) {
	t = &testPlan{workspace: w}
	// All files are read, also those of parts that do not run: a mistake is reported as soon as possible.
	if t.cases, err = testcase.Read(w); err != nil {
		return nil, err
	}
	if t.known, err = document.Read(w); err != nil {
		return nil, err
	}
	if t.stories, err = readStories(w); err != nil {
		return nil, err
	}
	t.cases = slices.DeleteFunc(t.cases, func(c *testcase.Case) bool { return !f.runs(partCases) || !names.MatchString(c.Name) })
	t.stories = slices.DeleteFunc(t.stories, func(s *story) bool { return !f.runs(partReplay) || !names.MatchString(s.Metadata.Name) })
	t.sampled = len(w.Tests) == 0 && len(f.only) == 0 && !f.update
	for _, e := range t.known {
		// Explorations of samples take time that only those should spend who choose it, or have nothing else.
		chosen := f.runs(partExplore) && (e.Document.File != "" || t.sampled || slices.Contains(f.only, partExplore))
		if chosen && names.MatchString(e.Name) {
			t.explorations = append(t.explorations, e)
		}
	}
	return t, nil
}

// run runs everything until the context ends.
func (t *testPlan) run(ctx context.Context, f *testFlags) (*testReport, error) {
	report := &testReport{Cases: runCases(ctx, t.cases)}
	if f.update {
		var err error
		if report.Cases, err = testcase.Update(report.Cases); err != nil {
			return nil, err
		}
	}
	for _, s := range t.stories {
		if ctx.Err() == nil {
			if result := t.replay(ctx, s, &f.limits); ctx.Err() == nil { // One that Ctrl-C has ended says nothing about the story.
				report.Stories = append(report.Stories, result)
			}
		}
	}
	for _, e := range t.explorations {
		if ctx.Err() == nil {
			report.Explorations = append(report.Explorations, t.runExploration(ctx, e, &f.limits))
		}
	}
	return report, nil
}

// replay makes the steps of a story, with the kinds and bounds of the exploration that found it.
func (t *testPlan) replay(ctx context.Context, s *story, f *exploreFlags) storyResult {
	result := storyResult{Name: s.Metadata.Name, File: s.document.File, Line: s.document.Line}
	began := time.Now()
	replayed, err := t.replayed(ctx, s, f)
	result.Seconds = time.Since(began).Seconds()
	if err != nil {
		result.Error = err.Error()
		return result
	}
	result.Passed, result.Violation, result.Stopped, result.Notes = !replayed.Violated, replayed.Violation, replayed.Stopped, replayed.Notes
	return result
}

func (t *testPlan) replayed(ctx context.Context, s *story, f *exploreFlags) (*explore.Replayed, error) {
	e, err := document.ForStory(t.workspace, t.known, &s.Story)
	if err != nil {
		return nil, err
	}
	options, err := t.options(ctx, e, f)
	if err != nil {
		return nil, err
	}
	return explore.Replay(ctx, options, s.Story)
}

// options returns the options of a search.
func (t *testPlan) options(ctx context.Context, e *document.Exploration, f *exploreFlags) (explore.Options, error) {
	options, err := e.Options(ctx, t.workspace, f.bounds)
	options.Version, options.Files = command.ReadVersion().Version, t.workspace.Digests()
	return options, err
}

func (t *testPlan) runExploration(ctx context.Context, e *document.Exploration, f *exploreFlags) explorationResult {
	result := explorationResult{Name: e.Name, File: e.Document.File, Line: e.Document.Line}
	options, err := t.options(ctx, e, f)
	if err == nil {
		phase := t.progress.Phase("explore " + e.Name)
		options.Progress = func(p explore.Progress) { phase.Update(p.String()) }
		result.Report, err = explore.Explore(ctx, options)
		t.progress.Close()
	}
	if err == nil {
		result.Saved, err = counterexample.Save(f.stories, e.Name+"-", result.Report.Violations)
	}
	result.conclude(ctx, err)
	return result
}

// parallelCases is how many cases run at once.
const parallelCases = 8

// runCases runs cases until the context ends. It returns their results in order.
func runCases(ctx context.Context, cases []*testcase.Case) []testcase.Result {
	results := make([]testcase.Result, len(cases))
	var group errgroup.Group
	group.SetLimit(parallelCases)
	for i, c := range cases {
		group.Go(func() error {
			if ctx.Err() == nil {
				results[i] = testcase.Run(ctx, c)
			}
			if ctx.Err() != nil && !results[i].Passed {
				results[i] = testcase.Result{} // The call that Ctrl-C has ended says nothing about the case.
			}
			return nil
		})
	}
	_ = group.Wait() // No function returns an error.
	return slices.DeleteFunc(results, func(r testcase.Result) bool { return r.Name == "" })
}

// story is a story in a file.
type story struct {
	counterexample.Story

	document manifest.Document
}

// readStories returns the stories in the files. It returns all errors.
func readStories(w *workspace.Workspace) ([]*story, error) {
	var all []*story
	var problems []error
	for _, d := range w.Tests {
		if d.Object.GetKind() == workspace.StoryKind {
			s := &story{document: d}
			problems = append(problems, s.read())
			all = append(all, s)
		}
	}
	return all, errors.Join(problems...)
}

// read reads the story from its document.
func (s *story) read() error {
	if err := s.document.Decode(&s.Story); err != nil {
		return err
	}
	if err := s.CheckSteps(); err != nil {
		return fmt.Errorf("%s: %s: %w", s.document.Locate(err), s.Metadata.Name, err)
	}
	return nil
}
