package test

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/setpoint-dev/setpoint/internal/cli/client"
	"github.com/setpoint-dev/setpoint/internal/cli/output"
	"github.com/setpoint-dev/setpoint/internal/diff"
	"github.com/setpoint-dev/setpoint/internal/difference"
	"github.com/setpoint-dev/setpoint/internal/testcase"
)

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
