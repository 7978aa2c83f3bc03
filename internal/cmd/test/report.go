package test

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/lists"
	"github.com/setpoint-dev/setpoint/internal/testcase"
)

// testReport is what `setpoint test` prints.
type testReport struct {
	Cases        []testcase.Result   `json:"cases"`
	Explorations []explorationResult `json:"explorations,omitempty"`
	Stories      []storyResult       `json:"stories,omitempty"`
	Summary      testSummary         `json:"summary"`
	// Notes are what may make the results less certain.
	Notes []string `json:"notes,omitempty"`
	// FirstCase is a document of YAML for files without any test.
	FirstCase string `json:"firstCase,omitempty"`
}

// testSummary counts the results. NotRun are those left after Ctrl-C.
type testSummary struct {
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Updated int     `json:"updated"`
	NotRun  int     `json:"notRun"`
	Seconds float64 `json:"seconds"`
}

// summarize counts the results of a number of cases.
func (r *testReport) summarize(all int, took time.Duration) {
	counts := map[state]int{}
	for _, one := range r.results(testStyle{}) {
		counts[one.state]++
	}
	r.Summary = testSummary{Passed: counts[passed], Failed: counts[failed], Updated: counts[updated], Seconds: took.Seconds()}
	r.Summary.NotRun = all - r.Summary.Passed - r.Summary.Failed - r.Summary.Updated
}

// results returns what became of all tests.
func (r *testReport) results(s testStyle) []result {
	return slices.Concat(lists.Map(r.Cases, s.ofCase), lists.Map(r.Stories, s.ofStory), lists.Map(r.Explorations, s.ofExploration))
}

// testStyle is how the text looks.
type testStyle struct{ color, verbose bool }

// writeText writes a line for each case, and details of those that fail.
func (r *testReport) writeText(out io.Writer, s testStyle) error {
	var b strings.Builder
	for _, one := range r.results(s) {
		s.write(&b, one)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", output.Clean(note))
	}
	fmt.Fprintf(&b, "%s\n", r.Summary)
	if r.FirstCase != "" {
		fmt.Fprintf(&b, "\nA first case, with what the hook responds now. Save it as cases.yaml in the folder, or give it too. With\n"+
			"a test, only --only explore explores as above:\n\n%s",
			r.FirstCase)
	}
	_, err := io.WriteString(out, b.String())
	return err
}

// String returns such as "3 passed, 1 failed".
func (t testSummary) String() string {
	var parts []string
	for _, one := range []struct {
		count int
		what  string
	}{{t.Passed, "passed"}, {t.Updated, "updated"}, {t.Failed, "failed"}, {t.NotRun, "not run"}} {
		if one.count > 0 {
			parts = append(parts, fmt.Sprintf("%d %s", one.count, one.what))
		}
	}
	return strings.Join(parts, ", ")
}

// write writes the line of a test, and what there is to see of it.
func (s testStyle) write(b *strings.Builder, one result) {
	name := output.Clean(one.name)
	if one.file != "" && (one.state == failed || one.state == updated) {
		name += fmt.Sprintf(" (%s:%d)", one.file, one.line)
	}
	ended := string(one.state)
	if s.color {
		ended = cmp.Or(map[state]output.Style{passed: output.Green, failed: output.Red}[one.state], output.Yellow).Apply(ended)
	}
	fmt.Fprintf(b, "%s  %s\n", ended, name)
	if one.err != "" {
		b.WriteString(shown(one.err))
	}
	b.WriteString(one.details)
}

// result is what became of one test, for people and for CI systems.
type result struct {
	name, class, file string
	line              int
	suite             string
	state             state
	took              float64
	// err is why there is no result. Failure says in one line what is wrong with the result, and text in many.
	err, failure, text string
	// details is what people see below the name.
	details string
}

// state is how a test has ended, in the words of the text.
type state string

const (
	passed  state = "ok  "
	failed  state = "FAIL"
	updated state = "updated"
	// ended is that of an exploration that Ctrl-C has ended: it is one of those that were not run.
	ended state = "ended"
)

func stateOf(holds bool) state {
	if holds {
		return passed
	}
	return failed
}

func (s testStyle) ofCase(c testcase.Result) result {
	one := result{
		name: c.Name, class: c.Controller + "." + c.Hook, file: c.File, line: c.Line,
		suite: partCases, took: c.Seconds, state: stateOf(c.Passed), err: c.Error,
		failure: "the response differs from the expected one", text: c.Difference,
	}
	if c.Updated {
		one.state = updated
	}
	if c.Difference != "" {
		one.details = fmt.Sprintf("      %s %s, - expected, + response:\n", c.Controller, c.Hook) +
			output.IndentDiff(c.Difference, "      ", s.color)
	}
	if s.verbose && c.Response != nil {
		if text, err := yaml.Marshal(c.Response); err == nil {
			one.details += shown(string(text))
		}
	}
	return one
}

// shown returns lines below the name of a test.
func shown(text string) string {
	text = "      " + strings.ReplaceAll(strings.TrimRight(diff.EscapeInvisible(text), "\n"), "\n", "\n      ") + "\n"
	return strings.ReplaceAll(text, "\n      \n", "\n\n")
}

// explorationResult is the result of an exploration.
type explorationResult struct {
	Name string `json:"name"`
	// File and Line are where the Exploration is; empty if it was made from samples.
	File   string `json:"file,omitempty"`
	Line   int    `json:"line,omitempty"`
	Passed bool   `json:"passed"`
	// Interrupted is set if Ctrl-C has ended it before anything was violated.
	Interrupted bool            `json:"interrupted,omitempty"`
	Report      *explore.Report `json:"report,omitempty"`
	// Saved are the files with the stories of violations.
	Saved []string `json:"saved,omitempty"`
	Error string   `json:"error,omitempty"`
}

// conclude says how an exploration has ended. What it has not seen that Ctrl-C has ended, it cannot have passed.
func (e *explorationResult) conclude(ctx context.Context, err error) {
	if err != nil && (ctx.Err() == nil || !errors.Is(err, context.Canceled)) {
		e.Error = err.Error()
		return
	}
	holds := e.Report == nil || e.Report.Passed()
	e.Interrupted = ctx.Err() != nil && holds
	e.Passed = holds && !e.Interrupted
}

// storyResult is the result of a replay.
type storyResult struct {
	Name    string  `json:"name"`
	File    string  `json:"file"`
	Line    int     `json:"line"`
	Passed  bool    `json:"passed"`
	Seconds float64 `json:"seconds"`
	// Violation says how the property is still violated, Stopped why the steps are not possible any more.
	Violation string   `json:"violation,omitempty"`
	Stopped   string   `json:"stopped,omitempty"`
	Notes     []string `json:"notes,omitempty"`
	Error     string   `json:"error,omitempty"`
}

func (s testStyle) ofExploration(e explorationResult) result {
	one := result{
		name: e.Name, class: partExplore, file: e.File, line: e.Line,
		suite: partExplore, state: stateOf(e.Passed), err: e.Error,
	}
	if e.Interrupted {
		one.state = ended
	}
	if e.Report != nil {
		one.took, one.failure, one.text = e.Report.Seconds, e.failure(), e.Report.String()
		one.details = shown(one.text)
	}
	for _, file := range e.Saved {
		one.details += fmt.Sprintf("      saved as %s\n", file)
	}
	return one
}

// failure says in one line why an exploration without an error has failed.
func (e *explorationResult) failure() string {
	if violated := len(e.Report.Violations); violated > 0 {
		return fmt.Sprintf("%d properties are violated", violated)
	}
	for _, u := range e.Report.Unmade {
		if u.Failed {
			return u.String()
		}
	}
	return ""
}

func (s testStyle) ofStory(r storyResult) result {
	one := result{
		name: r.Name, class: partReplay, file: r.File, line: r.Line, suite: partReplay, took: r.Seconds,
		state: stateOf(r.Passed), err: r.Error, failure: "the story still violates its property", text: r.Violation,
	}
	for _, text := range append([]string{r.Violation, r.Stopped}, r.Notes...) {
		if text != "" {
			one.details += shown(text)
		}
	}
	return one
}
