package cli

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
	"golang.org/x/sync/errgroup"

	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/testcase"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// exploreFlags are the bounds of explorations that have none of their own.
type exploreFlags struct {
	bounds  explore.Bounds
	stories string
}

func (f *exploreFlags) register(set *pflag.FlagSet) {
	set.IntVar(&f.bounds.Edits, "edits", 2, "edits of users to explore, unless an Exploration says how many")
	set.IntVar(&f.bounds.Crashes, "crashes", 1, "crashes of Setpoint to explore, unless an Exploration says how many")
	set.IntVar(&f.bounds.Faults, "faults", 1, "faults to explore, unless an Exploration says how many: refused writes, failing pods, changes by other clients")
	set.DurationVar(&f.bounds.Time, "time", 30*time.Second, "how long an exploration may take, unless it says how long")
	set.StringVar(&f.stories, "stories", "stories", "`folder` to write stories of violations to")
}

// testPlan is what to run.
type testPlan struct {
	workspace    *workspace.Workspace
	cases        []*testcase.Case
	explorations []*explore.Exploration
	stories      []*story
	// known are all explorations, for the replay of what they found.
	known []*explore.Exploration
}

func (t *testPlan) size() int { return len(t.cases) + len(t.explorations) + len(t.stories) }

// plan returns the tests of the chosen parts.
func (f *testFlags) plan(w *workspace.Workspace, matches matcher) (t *testPlan, err error) {
	t = &testPlan{workspace: w}
	// All files are read, also those of parts that do not run: a mistake is reported as soon as possible.
	if t.cases, err = testcase.Read(w); err != nil {
		return nil, err
	}
	if t.known, err = explore.Read(w); err != nil {
		return nil, err
	}
	if t.stories, err = readStories(w); err != nil {
		return nil, err
	}
	t.cases = slices.DeleteFunc(t.cases, func(c *testcase.Case) bool { return !f.runs(partCases) || !matches(c.Name) })
	t.stories = slices.DeleteFunc(t.stories, func(s *story) bool { return !f.runs(partReplay) || !matches(s.Metadata.Name) })
	for _, e := range t.known {
		// Explorations of samples take time that only those should spend who choose it.
		chosen := e.Document.File != "" && f.runs(partExplore) || slices.Contains(f.only, partExplore)
		if chosen && matches(e.Name) {
			t.explorations = append(t.explorations, e)
		}
	}
	return t, nil
}

// runs reports whether a part is chosen.
func (f *testFlags) runs(part string) bool { return len(f.only) == 0 || slices.Contains(f.only, part) }

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
			report.Stories = append(report.Stories, t.replay(ctx, s, &f.limits))
		}
	}
	for _, e := range t.explorations {
		if ctx.Err() == nil {
			report.Explorations = append(report.Explorations, t.explore(ctx, e, &f.limits))
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
	if len(t.known) == 0 {
		return nil, errors.New("the files have neither the Exploration that found the story, nor samples")
	}
	e := t.known[0]
	for _, each := range t.known {
		if strings.HasPrefix(s.Metadata.Name, each.Name+"-") {
			e = each
		}
	}
	options, err := t.options(ctx, e, f)
	if err != nil {
		return nil, err
	}
	return explore.Replay(ctx, options, s.Story)
}

// options returns the options of a search.
func (t *testPlan) options(ctx context.Context, e *explore.Exploration, f *exploreFlags) (explore.Options, error) {
	options, err := e.Options(ctx, t.workspace, f.bounds)
	options.Version, options.Files = readVersion().Version, t.workspace.Digests()
	return options, err
}

func (t *testPlan) explore(ctx context.Context, e *explore.Exploration, f *exploreFlags) explorationResult {
	result := explorationResult{Name: e.Name, File: e.Document.File, Line: e.Document.Line}
	options, err := t.options(ctx, e, f)
	if err == nil {
		result.Report, err = explore.Explore(ctx, options)
	}
	if err == nil {
		result.Passed = len(result.Report.Violations) == 0
		result.Saved, err = saveStories(f.stories, e.Name, result.Report.Violations)
	}
	if err != nil {
		result.Error, result.Passed = err.Error(), false
	}
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
			return nil
		})
	}
	_ = group.Wait() // No function returns an error.
	return slices.DeleteFunc(results, func(r testcase.Result) bool {
		return r.Name == "" || r.Error != "" && ctx.Err() != nil
	})
}
