package explore_test

import (
	"testing"

	"github.com/setpoint-dev/setpoint/internal/explore"
)

// TestEditsThatAreNeverMade fails an exploration whose edits the API server refuses, and notes those that change nothing.
func TestEditsThatAreNeverMade(t *testing.T) {
	for name, test := range map[string]struct {
		edit   explore.Edit
		edits  int
		want   string
		failed bool
	}{
		"misspelled": {editOf("bigger", map[string]any{"sice": 3}), 1, `Failed: The edit "bigger" of Thing default/a was never made: unknown field "spec.sice".`, true},
		"partly":     {editOf("bigger", map[string]any{"size": 3, "txt": "y"}), 1, `unknown field "spec.txt"`, true},
		"refused":    {editOf("huge", map[string]any{"size": 9}), 1, "spec.size in body should be less than or equal to 3", true},
		"unchanged":  {editOf("same", map[string]any{"size": 2}), 1, `The edit "same" of Thing default/a was never made: it changes nothing in what was explored, with at most 1 edit.`, false},
		"made":       {editOf("other", map[string]any{"size": 1}), 1, "", false},
		"not tried":  {editOf("huge", map[string]any{"size": 9}), 0, "", false},
	} {
		o := system(t, numbered)
		o.Edits, o.Bounds.Edits = []explore.Edit{test.edit}, test.edits
		report := run(t, o)
		wantViolations(t, report)
		if report.Passed() == test.failed || (len(report.Unmade) == 0) != (test.want == "") {
			t.Errorf("%s: passed %v, %v", name, report.Passed(), report.Unmade)
		}
		wantText(t, report.Text(), test.want)
	}
}

// TestEditsThatNeedOthers are made if another one comes first: what is refused at the beginning is no failure.
func TestEditsThatNeedOthers(t *testing.T) {
	o := system(t, numbered)
	o.Edits, o.Bounds.Edits = []explore.Edit{editOf("back", map[string]any{"size": 2}), editOf("one", map[string]any{"size": 1})}, 2
	if report := run(t, o); !report.Passed() || len(report.Unmade) > 0 {
		t.Errorf("%+v", report.Unmade)
	}
}

// TestGeneratedEditsAreGuesses notes those that the API server refuses.
func TestGeneratedEditsAreGuesses(t *testing.T) {
	o := system(t, numbered)
	guess := editOf("spec.size from 2 to 9", map[string]any{"size": 9})
	guess.Generated = true
	o.Edits, o.Bounds.Edits = []explore.Edit{guess}, 1
	report := run(t, o)
	if !report.Passed() || len(report.Unmade) > 0 {
		t.Errorf("%+v", report.Unmade)
	}
	wantText(t, report.Text(), "The API server refuses these generated edits: spec.size from 2 to 9 (")
}

// TestRefusalsInAPart shows that a search that ends early does not fail because of an edit that may be possible later.
func TestRefusalsInAPart(t *testing.T) {
	for name, test := range map[string]struct {
		spec   map[string]any
		passed bool
	}{"too large": {map[string]any{"size": 9}, true}, "misspelled": {map[string]any{"sice": 1}, false}} {
		o := system(t, numbered)
		o.Edits, o.Bounds = []explore.Edit{editOf("an edit", test.spec), editOf("another", map[string]any{"size": 1})}, explore.Bounds{Edits: 2, States: 20}
		report := run(t, o)
		if report.Cut == "" || len(report.Unmade) != 1 || report.Passed() != test.passed {
			t.Errorf("%s: %s", name, report.Text())
		}
	}
}
