package setpointtest

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/setpoint-dev/setpoint/internal/dev/manifest"
	"github.com/setpoint-dev/setpoint/internal/explore"
	"github.com/setpoint-dev/setpoint/internal/explore/counterexample"
)

// stories are the files with stories of a test.
type stories struct{ folder string }

func storiesOf(t testing.TB) stories {
	t.Helper()
	return stories{filepath.Join("testdata", "explore", counterexample.FileName(t.Name()))}
}

// replay makes the steps of all stories. It reports whether one still violates its property.
func (s stories) replay(t testing.TB, options explore.Options) (violated bool) {
	t.Helper()
	if _, err := os.Stat(s.folder); err != nil {
		return false
	}
	documents, err := manifest.ReadWithTests([]string{s.folder})
	if err != nil {
		t.Fatal(err)
	}
	for _, d := range documents {
		var story counterexample.Story
		err := d.Decode(&story)
		var replayed *explore.Replayed
		if err == nil {
			replayed, err = explore.Replay(t.Context(), options, story)
		}
		switch {
		case err != nil:
			t.Errorf("%s: %v", d.File, err)
			violated = true
		case replayed.Violated:
			var text strings.Builder
			story.Violation = replayed.Violation
			story.Write(&text)
			t.Errorf("the story in %s is still so:\n%s", d.File, text.String())
			violated = true
		case replayed.Stopped != "":
			t.Logf("%s: %s; delete the file if the change is meant", d.File, replayed.Stopped)
		}
	}
	return violated
}

// save writes a file for each violation.
func (s stories) save(t testing.TB, violations []counterexample.Story) {
	t.Helper()
	files, err := counterexample.Save(s.folder, "", violations)
	if err != nil {
		t.Fatalf("save the story: %v", err)
	}
	for _, file := range files {
		t.Logf("saved as %s: the test makes these steps first from now on", file)
	}
}
