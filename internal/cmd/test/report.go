package test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"sigs.k8s.io/yaml"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
	"github.com/setpoint-dev/setpoint/internal/testcase"
	"github.com/setpoint-dev/setpoint/internal/workspace"
)

// testReport is what `setpoint test` prints.
type testReport struct {
	Cases        []testcase.Result   `json:"cases"`
	Explorations []explorationResult `json:"explorations,omitempty"`
	Stories      []storyResult       `json:"stories,omitempty"`
	Recordings   *recordingResult    `json:"recordings,omitempty"`
	Summary      testSummary         `json:"summary"`
	// Notes are what may make the results less certain.
	Notes []string `json:"notes,omitempty"`
}

// testSummary counts the results. NotRun are those left after Ctrl-C.
type testSummary struct {
	Passed  int     `json:"passed"`
	Failed  int     `json:"failed"`
	Updated int     `json:"updated"`
	NotRun  int     `json:"notRun"`
	Seconds float64 `json:"seconds"`
}

// summarize counts the results of a number of cases. Assumed are the kinds without a CRD.
func (r *testReport) summarize(all int, took time.Duration, assumed []string) {
	for i := range r.Cases {
		switch c := &r.Cases[i]; {
		case c.Updated:
			r.Summary.Updated++
		default:
			r.Summary.add(c.Passed)
		}
	}
	for i := range r.Explorations {
		if e := &r.Explorations[i]; !e.Interrupted {
			r.Summary.add(e.Passed)
		}
	}
	for i := range r.Stories {
		r.Summary.add(r.Stories[i].Passed)
	}
	if r.Recordings != nil {
		r.Summary.add(r.Recordings.Passed)
	}
	r.Summary.NotRun, r.Summary.Seconds = all-r.Summary.Passed-r.Summary.Failed-r.Summary.Updated, took.Seconds()
	if len(assumed) > 0 {
		r.Notes = append(r.Notes, "no CRD in the files, assumed to be namespaced: "+strings.Join(assumed, ", "))
	}
}

func (t *testSummary) add(passed bool) {
	if passed {
		t.Passed++
		return
	}
	t.Failed++
}

// testStyle is how the text looks.
type testStyle struct{ color, verbose bool }

func (s testStyle) paint(t output.Style, text string) string {
	if !s.color {
		return text
	}
	return t.Apply(text)
}

// writeText writes a line for each case, and details of those that fail.
func (r *testReport) writeText(out io.Writer, s testStyle) error {
	var b strings.Builder
	for i := range r.Cases {
		s.writeCase(&b, &r.Cases[i])
	}
	if r.Recordings != nil {
		s.writeRecordings(&b, r.Recordings)
	}
	for i := range r.Stories {
		s.writeStory(&b, &r.Stories[i])
	}
	for i := range r.Explorations {
		s.writeExploration(&b, &r.Explorations[i])
	}
	for _, note := range r.Notes {
		fmt.Fprintf(&b, "note: %s\n", output.Clean(note))
	}
	fmt.Fprintf(&b, "%s\n", r.Summary)
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

// writeName writes the line of a test.
func (s testStyle) writeName(b *strings.Builder, passed bool, name, file string, line int) {
	name = output.Clean(name)
	if passed {
		fmt.Fprintf(b, "%s  %s\n", s.paint(output.Green, "ok  "), name)
		return
	}
	if file != "" {
		name += fmt.Sprintf(" (%s:%d)", file, line)
	}
	fmt.Fprintf(b, "%s  %s\n", s.paint(output.Red, "FAIL"), name)
}

func (s testStyle) writeCase(b *strings.Builder, c *testcase.Result) {
	if c.Updated {
		fmt.Fprintf(b, "%s  %s (%s:%d)\n", s.paint(output.Yellow, "updated"), c.Name, c.File, c.Line)
	} else {
		s.writeName(b, c.Passed, c.Name, c.File, c.Line)
	}
	if c.Error != "" {
		b.WriteString(indentLines(diff.EscapeInvisible(c.Error)))
	}
	if c.Difference != "" {
		fmt.Fprintf(b, "      %s %s, - expected, + response:\n", c.Controller, c.Hook)
		for line := range strings.Lines(c.Difference) {
			b.WriteString("      " + s.paint(diffStyle(line), strings.TrimSuffix(line, "\n")) + "\n")
		}
	}
	if s.verbose && c.Response != nil {
		if text, err := yaml.Marshal(c.Response); err == nil {
			b.WriteString(indentLines(diff.EscapeInvisible(string(text))))
		}
	}
}

func diffStyle(line string) output.Style {
	switch line[0] {
	case '-':
		return output.Red
	case '+':
		return output.Green
	}
	return output.Plain
}

func indentLines(text string) string {
	text = "      " + strings.ReplaceAll(strings.TrimRight(text, "\n"), "\n", "\n      ") + "\n"
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

func (s testStyle) writeExploration(b *strings.Builder, e *explorationResult) {
	if e.Interrupted {
		fmt.Fprintf(b, "%s  %s\n", s.paint(output.Yellow, "ended"), output.Clean(e.Name))
	} else {
		s.writeName(b, e.Passed, e.Name, e.File, e.Line)
	}
	if e.Error != "" {
		b.WriteString(indentLines(diff.EscapeInvisible(e.Error)))
	}
	if e.Report != nil {
		b.WriteString(indentLines(diff.EscapeInvisible(e.Report.Text())))
	}
	for _, file := range e.Saved {
		fmt.Fprintf(b, "      saved as %s\n", file)
	}
}

func (s testStyle) writeStory(b *strings.Builder, r *storyResult) {
	s.writeName(b, r.Passed, r.Name, r.File, r.Line)
	for _, text := range append([]string{r.Error, r.Violation, r.Stopped}, r.Notes...) {
		if text != "" {
			b.WriteString(indentLines(diff.EscapeInvisible(text)))
		}
	}
}

// recordingResult is the result of the replay of recordings.
type recordingResult struct {
	testcase.Replayed

	Passed bool   `json:"passed"`
	Error  string `json:"error,omitempty"`
}

// replayRecordings calls the hooks with the recorded requests until the time is up.
func (t *testPlan) replayRecordings(ctx context.Context, limit time.Duration) *recordingResult {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	replayed, err := testcase.Replay(ctx, t.workspace, t.recordings)
	if err != nil {
		return &recordingResult{Replayed: testcase.Replayed{Files: t.recordings}, Error: err.Error()}
	}
	return &recordingResult{Replayed: *replayed, Passed: replayed.Passed()}
}

// The limits of what is shown of a replay as text.
const (
	maxShownDifferences = 5
	maxShownEffects     = 3
)

func (s testStyle) writeRecordings(b *strings.Builder, r *recordingResult) {
	s.writeName(b, r.Passed, fmt.Sprintf("%s: %s, %s", strings.Join(r.Files, ", "), output.Plural(r.Calls, "call", "calls"),
		output.Plural(r.Requests, "distinct request", "distinct requests")), "", 0)
	if r.Error != "" {
		b.WriteString(indentLines(diff.EscapeInvisible(r.Error)))
	}
	for _, consequence := range difference.Consequences() {
		if count := r.Counts[consequence]; count > 0 {
			fmt.Fprintf(b, "      %s: %d\n", s.paint(consequenceStyle(consequence), describeConsequence(consequence)), count)
			s.writeDifferences(b, r, consequence)
		}
	}
	if r.Same > 0 {
		fmt.Fprintf(b, "      same response: %d\n", r.Same)
	}
	if r.NotRun > 0 {
		fmt.Fprintf(b, "      not called, because the time was up (--time): %d\n", r.NotRun)
	}
	for _, note := range r.Notes {
		fmt.Fprintf(b, "      note: %s\n", output.Clean(note))
	}
}

// writeDifferences writes the first differences with a consequence.
func (s testStyle) writeDifferences(b *strings.Builder, r *recordingResult, consequence difference.Consequence) {
	shown := 0
	for i := range r.Differences {
		d := &r.Differences[i]
		if d.Consequence != consequence {
			continue
		}
		shown++
		if shown > maxShownDifferences && !s.verbose {
			fmt.Fprintf(b, "        …; -v or -o json shows more\n")
			return
		}
		fmt.Fprintf(b, "        %s of %s", output.Clean(d.Hook), client.NameOf(d.Object))
		if d.Requests > 1 {
			fmt.Fprintf(b, ", %d requests", d.Requests)
		}
		b.WriteString(":\n")
		for k, effect := range d.Effects {
			if k >= maxShownEffects && !s.verbose {
				fmt.Fprintf(b, "          … and %d more\n", len(d.Effects)-k)
				break
			}
			fmt.Fprintf(b, "          %s\n", output.Clean(effect.Text))
		}
	}
}

// describeConsequence returns a consequence for people.
func describeConsequence(c difference.Consequence) string {
	return map[difference.Consequence]string{
		difference.Unstable: "not deterministic", difference.WouldDelete: "would delete",
		difference.WouldDeny:   "would be denied, or allowed",
		difference.WouldCreate: "would create", difference.WouldUpdate: "would update", difference.StatusOnly: "status or timing only",
		difference.Failed: "fails now", difference.NotComparable: "not comparable",
	}[c]
}

func consequenceStyle(c difference.Consequence) output.Style {
	switch c {
	case difference.Unstable, difference.WouldDelete, difference.WouldDeny, difference.Failed:
		return output.Red
	}
	return output.Yellow
}

// recordingSuite is the suite of recordings in the format of JUnit, with one test.
func (r *testReport) recordingSuite() junitSuite {
	suite := newSuite("recordings")
	if r.Recordings == nil {
		return suite
	}
	var text strings.Builder
	testStyle{verbose: true}.writeRecordings(&text, r.Recordings)
	suite.add(junitCase{Name: strings.Join(r.Recordings.Files, ", "), Class: partReplay}, r.Recordings.Seconds, r.Recordings.Error,
		problem(!r.Recordings.Passed, "recorded requests have other responses", text.String()))
	return suite
}
